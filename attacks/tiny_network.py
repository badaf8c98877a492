"""A network of a hundred bytes, written without any library for networks."""

from __future__ import annotations


def _field(number: int, content: bytes | int) -> bytes:
    """Return a field of a protobuf message; lengths stay below 128."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def _value_info(name: bytes, *sides: int) -> bytes:
    kind = _field(1, 1)  # float
    if sides:
        kind += _field(2, b"".join(_field(1, _field(1, side)) for side in sides))
    return _field(1, name) + _field(2, _field(1, kind))


#: An ONNX network that flattens an image of 4 x 4 pixels, one at a time.
TINY_NETWORK = (
    _field(1, 8)
    + _field(
        7,
        _field(1, _field(1, b"x") + _field(2, b"y") + _field(4, b"Flatten"))
        + _field(2, b"g")
        + _field(11, _value_info(b"x", 1, 3, 4, 4))
        + _field(12, _value_info(b"y")),
    )
    + _field(8, _field(2, 13))
)
