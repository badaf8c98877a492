"""The program `ddsfl`, also as `python -m ddsfl`."""

from ddsfl.cli.ends import run


def main() -> None:
    """Run the program as the whole of this process."""
    run(_command)


def _command() -> None:
    from ddsfl.cli.main import main  # only now: signals are answered

    main()


if __name__ == "__main__":
    main()
