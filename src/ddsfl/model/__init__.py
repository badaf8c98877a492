"""The classifier: its settings and presets, its fit in stages, and its file."""
