"""Discriminative, shareable local image features from small labelled image sets."""

__version__ = "0.1.0"
