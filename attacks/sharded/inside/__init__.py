"""What is in here runs inside the processes of a disturbed command, whose PYTHONPATH names this folder."""
