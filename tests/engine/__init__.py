"""Tests of the engine."""

from hypothesis import HealthCheck, settings

# a busy machine is no failure
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
