"""`python -m ddsfl` is the program `ddsfl`."""

from ddsfl.cli.main import main

main()
