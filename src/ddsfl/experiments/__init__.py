"""Evaluations, the search of settings, the demo and the paper's tables."""
