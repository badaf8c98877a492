"""Filter banks: the terms of the objective, sharing, exemplars, one layer and stacks of layers."""
