"""Guided surgery on attention heads. Everything here runs without a screen.

Modules directly in this package import no torch; whatever needs torch lives in ``engine.nn``.
"""

__version__ = "0.1.0"
