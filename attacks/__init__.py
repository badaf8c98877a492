"""Attacks on the product: hostile input (`python -m attacks.fuzz`). What must hold: docs/robustness.md."""
