"""Text for terminals and files of any encoding: what an encoding lacks is replaced, never an error."""

from __future__ import annotations

import codecs

#: Signs of our own output and what stands for them in encodings without them.
_PLAIN = {"±": "+-", "\u2013": "-", "\u2014": "-", "…": "...", "\u00d7": "x", "█": "#"}
#: Name of an error handler with which a stream writes any text: bytes of file names that are not UTF-8 as
#: they are, other characters that the encoding lacks replaced. It is registered below.
ANY_TEXT = "ddsfl.any_text"


def printable(text: str, encoding: str) -> str:
    r"""Return ``text`` with everything that ``encoding`` lacks replaced, control characters included.

    Bytes of file names that are no text (surrogates) stay as they are: the error handler `ANY_TEXT` writes
    them unchanged.

    >>> printable("Küche ± 海\x1b", "ascii"), printable("Küche", "utf-8")
    ('K\\xfcche +- \\u6d77\\x1b', 'Küche')
    """
    return "".join(
        c if c in "\n\t" or _is_byte(c) or (_fits(c, encoding) and not _is_control(c)) else _replacement(c)
        for c in text
    )


def _replace(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    # Python's own handler for the bytes of file names writes them as they are.
    shown = bytes([ord(character) - 0xDC00]) if _is_byte(character) else _replacement(character)
    return shown, error.start + 1


def _is_byte(character: str) -> bool:
    """Return whether a character stands for a byte of a file name that is no text."""
    return "\udc80" <= character <= "\udcff"


def _fits(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _replacement(character: str) -> str:
    return _PLAIN.get(character) or _escaped(character)


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f"


def _escaped(character: str) -> str:
    if _is_control(character):
        return f"\\x{ord(character):02x}"
    return character.encode("ascii", "backslashreplace").decode()


codecs.register_error(ANY_TEXT, _replace)
