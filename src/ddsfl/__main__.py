"""`python -m ddsfl` is the program `ddsfl`."""

from ddsfl.cli import main

main()
