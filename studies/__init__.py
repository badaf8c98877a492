"""Scientific questions about the method, answered by commands that anyone can repeat; not shipped."""
