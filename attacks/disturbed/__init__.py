"""Trainings that are killed, damaged, starved or disturbed by a neighbour; `attacks.chaos` runs them."""
