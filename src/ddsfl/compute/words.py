"""Parts of messages: a number with its noun, and the reason of an error."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun; the plural ends in "s" unless it is given.

    >>> counted(1, "image"), counted(0, "image"), counted(2, "class", "classes")
    ('1 image', '0 images', '2 classes')
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def why_not(error: OSError) -> str:
    """Return the reason of an error in lower case, for the inside of a sentence.

    >>> why_not(FileNotFoundError(2, "No such file or directory", "a.png"))
    'no such file or directory'
    """
    return (error.strerror or str(error)).lower()
