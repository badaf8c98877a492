"""Output for people: progress on a terminal, tables and pictures of what a model learned."""
