"""Attacks on the product: hostile input (`attacks.fuzz`) and kills (`attacks.chaos`); docs/robustness.md."""
