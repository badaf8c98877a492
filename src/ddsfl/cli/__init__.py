"""The command-line program `ddsfl`: one table of commands, one small file per group of commands."""
