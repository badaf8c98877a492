"""Nearest neighbours on any device: exact and certified, or directly from matrix products."""
