"""The same images in everything that commands read very many images from."""

import csv
import io
import os
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

#: Kinds whose rows are named by the paths of the files.
BY_PATH = ("folder", "csv", "list", "parquet-paths", "arrow-paths")
#: Kinds that hold the bytes of the images.
BY_BYTES = ("parquet-bytes", "parquet-named", "hugging-face", "arrow-file", "arrow-stream", "tar")


def container_of(kind, paths, folder):
    """Write images in this form into a folder next to theirs; return the input and the expected names."""
    paths = [Path(path) for path in paths]
    folder.mkdir(parents=True, exist_ok=True)
    relative = [os.path.relpath(path, folder) for path in paths]
    joined = [os.path.join(folder, path) for path in relative]
    contents = [path.read_bytes() for path in paths]
    if kind == "folder":
        root = paths[0].parents[1]
        return root, [str(path) for path in paths]
    if kind == "csv":
        with open(folder / "list.csv", "w", newline="") as stream:
            csv.writer(stream).writerows([("label", " Path "), *(("x", path) for path in relative)])
        return folder / "list.csv", joined
    if kind == "list":
        (folder / "list.txt").write_text("\n\n".join(relative) + "\n")
        return folder / "list.txt", joined
    if kind == "parquet-paths":
        pq.write_table(pa.table({"path": relative}), folder / "t.parquet", row_group_size=5)
        return folder / "t.parquet", joined
    if kind == "arrow-paths":
        write_arrow(pa.table({"path": pa.array(relative).dictionary_encode()}), folder / "t.arrow", 5)
        return folder / "t.arrow", joined
    if kind == "parquet-bytes":
        pq.write_table(pa.table({"n": range(len(paths)), "bytes": contents}), folder / "t.parquet", 5)
        return folder / "t.parquet", [f"{folder / 't.parquet'}#{row}" for row in range(len(paths))]
    if kind == "parquet-named":
        pq.write_table(pa.table({"path": relative, "image": contents}), folder / "t.parquet", 5)
        return folder / "t.parquet", relative
    if kind == "hugging-face":
        rows = [{"bytes": content, "path": path.name} for content, path in zip(contents, paths)]
        pq.write_table(pa.table({"label": range(len(paths)), "image": rows}), folder / "t.parquet", 100)
        return folder / "t.parquet", [path.name for path in paths]
    if kind in ("arrow-file", "arrow-stream"):
        file = folder / f"{kind}.arrow"
        write_arrow(pa.table({"image": contents, "n": range(len(paths))}), file, 5, stream="stream" in kind)
        return file, [f"{file}#{row}" for row in range(len(paths))]
    assert kind == "tar"
    members = [(f"train/{path.parent.name}/{path.name}", content) for path, content in zip(paths, contents)]
    write_tar(folder / "t.tar", [("train/x.json", b"{}"), *members])
    return folder / "t.tar", [f"{folder / 't.tar'}/{name}" for name, _ in members]


def write_arrow(table, file, rows_per_batch, stream=False):
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_per_batch)


def write_tar(file, members):
    with tarfile.open(file, "w") as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
