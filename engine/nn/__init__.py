"""The part of the engine that imports torch."""
