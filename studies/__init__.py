"""Scientific questions about the method, answered by reproducible commands; not part of the package."""
