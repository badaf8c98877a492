"""Small archives, and what was unpacked from them."""

import io
import os
import tarfile
import zipfile

FILES = {"Images/bar/1.jpg": b"one", "Images/pub/ü.jpg": b"two", "list.txt": b""}


def write_tar(path, files, opening="w", **fields):
    with tarfile.open(path, opening) as archive:
        for name, payload in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(payload)
            for field, value in fields.items():
                setattr(entry, field, value)
            archive.addfile(entry, io.BytesIO(payload))
    return path


def write_zip(path, files, mode=0):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, payload in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, payload, zipfile.ZIP_DEFLATED)
    return path


def files_in(folder):
    contents = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as stream:
                contents[os.path.relpath(path, folder)] = stream.read()
    return contents


def summed(block):
    """Return a header of a tar with the right checksum."""
    total = sum(block[:148]) + 8 * 32 + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


def tar_header(name, size=0, kind=b"0", **fields):
    """Return a header as GNU tar writes it; fields are given by their offset, as ``at257=b"magic"``."""
    block = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
    block[:100] = name.ljust(100, b"\0")
    block[124:136] = b"%011o\0" % size if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
    block[156:157] = kind
    for offset, value in fields.items():
        block[int(offset[2:]) : int(offset[2:]) + len(value)] = value
    return summed(bytes(block))


def tar_of(*members):
    """Return a tar of headers, each followed by its contents."""
    padded = (header + contents + bytes(-len(contents) % 512) for header, contents in members)
    return b"".join(padded) + bytes(1024)


def pax(**records):
    """Return the contents of an extended header."""
    made = b""
    for key, value in records.items():
        body = b" " + key.replace("__", ".").encode() + b"=" + value + b"\n"
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length += 1
        made += str(length).encode() + body
    return made
