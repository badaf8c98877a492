"""Ratios measured side by side in one run: against rivals and against bare matrix products."""
