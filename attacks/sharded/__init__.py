"""Runs of shards that are killed, starved or given another model; `attacks.shards` runs them."""
