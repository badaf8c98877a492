"""Results of images as columns: what the parts of `predict` and `encode` hold, with a row for every image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ddsfl.report.prediction import N_TOP, Answers

Array = np.ndarray[Any, Any]


def prediction_fields(classes: Sequence[str], *, multilabel: bool, calibrated: bool) -> pa.Schema:
    """Return the columns of predictions, between the path and the error.

    >>> prediction_fields(["sea", "town"], multilabel=False, calibrated=True).names[:4]
    ['label', 'probability', 'top1', 'top1_probability']
    """
    number = pa.float32()
    value = "probability" if calibrated else "score"
    fields = [
        ("label", _lists(pa.string()) if multilabel else pa.string()),
        ("probability", _lists(number) if multilabel else number),
    ]
    for place in range(1, min(N_TOP, len(classes)) + 1):
        fields += [(f"top{place}", pa.string()), (f"top{place}_{value}", number)]
    fields += [("unlike", pa.bool_()), ("novelty", number), ("scores", _lists(number, len(classes)))]
    return pa.schema(fields)


def prediction_columns(said: Answers, classes: Sequence[str], fields: pa.Schema) -> list[pa.Array]:
    """Return the columns of images that could be read."""
    names = np.array(classes, dtype=object)
    best = np.take_along_axis(said.sureness, said.top, axis=1)
    tops = [
        column for place in range(said.top.shape[1]) for column in (names[said.top[:, place]], best[:, place])
    ]
    labels = [
        text_of(label) if isinstance(label, str) else list(map(text_of, label)) for label in said.labels
    ]
    columns = [labels, said.probability, *tops, said.unlike, said.novelty]
    arrays = [pa.array(column, field.type, from_pandas=False) for column, field in zip(columns, fields)]
    return [*arrays, matrix_column(said.scores, np.float32)]


def vector_fields(width: int, *, half: bool) -> pa.Schema:
    """Return the column of vectors.

    >>> vector_fields(3, half=True)
    vector: fixed_size_list<element: halffloat>[3]
      child 0, element: halffloat
    """
    return pa.schema([("vector", _lists(pa.float16() if half else pa.float32(), width))])


def matrix_column(rows: Array, kind: Any) -> pa.Array:
    """Return a matrix (N, width) as a column of lists of fixed size.

    >>> matrix_column(np.eye(2), np.float16).type
    FixedSizeListType(fixed_size_list<element: halffloat>[2])
    """
    flat = pa.array(np.ascontiguousarray(rows, dtype=kind).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, type=_lists(flat.type, rows.shape[1]))


def _lists(values: pa.DataType, width: int = -1) -> pa.DataType:
    """Return the type of lists, of any length by default; Parquet calls their values so."""
    return pa.list_(pa.field("element", values), width)


def table_of(
    names: Sequence[str], errors: Mapping[int, str], fields: pa.Schema, columns: Sequence[pa.Array]
) -> pa.Table:
    """Return the table of a shard.

    Parameters
    ----------
    names : of all images.
    errors : by the number of an image why it could not be read; its other columns are null.
    fields : the columns of results.
    columns : their values for the images without an error, in order; empty if there are none.
    """
    if not columns:
        columns = [pa.nulls(0, field.type) for field in fields]
    if errors:
        place = iter(range(len(names)))
        rows = pa.array([None if n in errors else next(place) for n in range(len(names))], pa.int64())
        columns = [column.take(rows) for column in columns]
    reasons = [text_of(errors[n]) if n in errors else None for n in range(len(names))]
    schema = pa.schema([("path", pa.string()), *fields, ("error", pa.string())])
    arrays = [
        pa.array([text_of(name) for name in names], pa.string()),
        *columns,
        pa.array(reasons, pa.string()),
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def text_of(name: str) -> str:
    r"""Return a name as UTF-8 can write it: bytes of a file name that are no UTF-8 are escaped.

    >>> print(text_of("caf\udce9.png"), text_of("café.png"))
    caf\udce9.png café.png
    """
    return name.encode("utf-8", "backslashreplace").decode()
