"""Text for terminals and files of any encoding.

What an encoding lacks is replaced, never an error. What a terminal would obey (escape codes, line breaks,
marks of direction) is shown escaped: file and class names come from anywhere.
"""

from __future__ import annotations

import codecs
import unicodedata

#: Signs of our own output and what stands for them in encodings without them.
_PLAIN = {"±": "+-", "\u2013": "-", "\u2014": "-", "…": "...", "\u00d7": "x", "█": "#"}
#: Categories of characters that are not shown but obeyed: controls, marks of direction and the like, breaks
#: of lines and paragraphs, halves of characters.
_SIGNS = ("Cc", "Cf", "Zl", "Zp", "Cs")
#: Signs that join or part letters: names in many scripts, and emoji, need them.
_JOINERS = "\u200c\u200d"
#: Name of an error handler with which a stream writes any text: bytes of file names that are not UTF-8 as
#: they are, other characters that the encoding lacks replaced. It is registered below.
ANY_TEXT = "ddsfl.any_text"


def printable(text: str, encoding: str) -> str:
    r"""Return ``text`` in one line; what ``encoding`` lacks or a terminal would obey is replaced.

    >>> printable("Küche ± 海\x1b", "ascii"), printable("Küche", "utf-8")
    ('K\\xfcche +- \\u6d77\\x1b', 'Küche')
    """
    return "".join(c if _fits(c, encoding) else _replacement(c) for c in one_line(text))


def one_line(text: str) -> str:
    r"""Return ``text`` as a terminal can show it: what it would obey or hide is escaped, line breaks too.

    Escaped are control characters, marks that reverse the direction of text, invisible signs other than
    joiners, and bytes of file names that are no text.

    >>> print(one_line("a\x1b[31mb\nc\u202egnp.exe\udce9"))
    a\x1b[31mb\nc\u202egnp.exe\xe9
    """
    if text.isprintable():  # the usual case, and quick
        return text
    return "".join(_escaped(c) if _is_sign(c) else c for c in text)


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


def _is_sign(character: str) -> bool:
    """Return whether a terminal would obey or hide a character rather than show it."""
    return unicodedata.category(character) in _SIGNS and character not in _JOINERS


def _escaped(character: str) -> str:
    if _is_byte(character):
        return f"\\x{ord(character) - 0xDC00:02x}"
    if character < "\x80":
        return repr(character)[1:-1]  # \n rather than \x0a
    return character.encode("ascii", "backslashreplace").decode()


codecs.register_error(ANY_TEXT, _replace)
