"""Runs of shards without the program: inputs into parts, on an engine, with a loaded model."""

from pathlib import Path

import numpy as np
import pyarrow.dataset

from ddsfl.report.console import Console
from ddsfl.scale.engine import Here
from ddsfl.scale.inputs.finding import Inputs
from ddsfl.scale.parts import part_path
from ddsfl.scale.runner import keep_finished, run_shards
from ddsfl.scale.worker import Job


def job_of(computation, folder, size=256):
    stamp = {"command": computation.command, **computation.identity, "options": {"shard_size": size}}
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Job(Path(folder), computation, stamp)


def run_job(computation, inputs, folder, size=256, engine=None):
    """Compute all parts that are not there; return what became of the shards."""
    job = job_of(computation, folder, size)
    left, outcomes = keep_finished(job, Inputs.find(inputs).shards(size))
    run_shards(job, left, outcomes, engine or Here(), Console(quiet=True))
    return outcomes


def rows_of(folder):
    """The rows of all parts in the order of the parts, as a table."""
    return pyarrow.dataset.dataset(folder, format="parquet").to_table()


def matrix_of(column):
    """A column of lists of fixed size as a matrix."""
    return np.stack(column.to_numpy(zero_copy_only=False))


def bytes_of_parts(folder, count):
    return [part_path(Path(folder), number).read_bytes() for number in range(count)]
