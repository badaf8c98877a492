"""Tables in Parquet files, and in Arrow files and streams."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from ddsfl.scale.inputs.tables import STEP, Table, check_openable

#: How an Arrow file begins; a stream has no such mark.
_ARROW_FILE = b"ARROW1"
#: Bytes of a column that are read at a time, whatever the size of its row group.
_BUFFER = 2**20


class ParquetTable(Table):
    """A Parquet file; the groups are its row groups, of which a few pages are in memory at a time."""

    def __init__(self, file: str) -> None:
        check_openable(file)
        self._parquet = pq.ParquetFile(file, buffer_size=_BUFFER, memory_map=False)
        super().__init__(file)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self._parquet.schema_arrow

    def group_sizes(self) -> Iterator[int]:
        """Yield the number of rows of each row group, from the footer."""
        metadata = self._parquet.metadata
        for group in range(metadata.num_row_groups):
            yield metadata.row_group(group).num_rows

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group."""
        yield from self._parquet.iter_batches(
            STEP, row_groups=[group], columns=self.columns.names, use_threads=False
        )

    def close(self) -> None:
        """Close the file."""
        self._parquet.close()


class ArrowTable(Table):
    """An Arrow file or stream, mapped into memory; the groups are its record batches."""

    def __init__(self, file: str) -> None:
        check_openable(file)
        self._map = pa.memory_map(file)
        self._is_file = self._map.read(len(_ARROW_FILE)) == _ARROW_FILE
        self._reader = self._open(None)
        self._schema = self._reader.schema
        self._next = 0  # batch of a stream
        super().__init__(file)
        used = [self._schema.get_field_index(name) for name in self.columns.names]
        self._options = pa.ipc.IpcReadOptions(included_fields=used, use_threads=False)
        self._reader = self._open(self._options)

    def _open(self, options: pa.ipc.IpcReadOptions | None) -> pa.RecordBatchReader:
        self._map.seek(0)
        self._next = 0
        if self._is_file:
            return pa.ipc.open_file(self._map, options=options)
        return pa.ipc.open_stream(self._map, options=options)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self._schema

    def group_sizes(self) -> Iterator[int]:
        """Yield the number of rows of each batch."""
        if self._is_file:
            for group in range(self._reader.num_record_batches):
                yield self._reader.get_batch(group).num_rows
            return
        self._reader = self._open(self._options)
        for batch in self._reader:
            self._next += 1
            yield batch.num_rows

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield one batch; in a stream, those before it are passed over, from the last one on if possible."""
        if self._is_file:
            batch = self._reader.get_batch(group)
        else:
            if group < self._next:
                self._reader = self._open(self._options)
            while self._next <= group:
                batch = self._reader.read_next_batch()
                self._next += 1
        batch.validate(full=True)  # a damaged file could otherwise name places outside of it
        yield batch

    def close(self) -> None:
        """Close the file; what was read stays valid."""
        self._map.close()
