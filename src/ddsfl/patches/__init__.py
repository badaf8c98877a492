"""Geometry of scales and receptive fields, normalisation of patches, and sampling."""
