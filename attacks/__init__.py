"""Attacks on the product: hostile input (`attacks.fuzz`) and kills (`attacks.chaos`); see docs/robustness.md."""
