"""The program `ddsfl`, also as `python -m ddsfl`."""

import os


def main() -> None:
    """Run the program as the whole of this process."""
    import signal

    # What is imported next takes some milliseconds, the commands seconds: Ctrl-C is answered from here on.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Ignored from the start (nohup, a job in the background): it stays ignored.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end_early)
    from ddsfl.cli.ends import run

    run(_command, answering=_end_early)


def _end_early(number: int, frame: object) -> None:
    os.write(2, b"ddsfl: interrupted.\n")
    os._exit(128 + number)


def _command() -> None:
    from ddsfl.cli.main import main  # only now: errors of imports become sentences

    main()


if __name__ == "__main__":
    main()
