"""Nearest neighbours: exact and certified, or straight from products, on any device."""
