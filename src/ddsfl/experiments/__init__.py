"""Data sets, protocols, searches and tables."""
