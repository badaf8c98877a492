"""Ratios measured within one run, against rivals and against bare matrix products."""
