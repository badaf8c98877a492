"""Discriminative, shareable local image features from small labelled image sets."""
