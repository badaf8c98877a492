"""What people look at: progress on a terminal, tables and pictures of what a model learned."""
