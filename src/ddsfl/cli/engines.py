"""Where a command works: the options that choose an engine, and the engine they mean."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ddsfl.scale.engine import Engine, Here

ENGINES = ("here", "processes", "ray")

EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="|".join(ENGINES),
        # Two backslashes before a bracket: the help would take it for a style.
        help="Where to work: in this process, in several, or on a Ray cluster (pip install 'ddsfl\\[ray]').",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Ray cluster to use, or auto; by default a new one on this machine. All nodes need the same "
        "versions, and the files at the same paths.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Number of workers; by default one per GPU, or per CPU without GPUs."),
]
GpusPerWorker = Annotated[
    float | None,
    typer.Option(min=0, help="GPUs of each worker (ray); several share one with a fraction, e.g. 0.5."),
]


def engine_of(
    engine: str, address: str | None = None, workers: int | None = None, gpus_per_worker: float | None = None
) -> Engine:
    """Return the engine that the options mean; it starts when it is entered.

    >>> engine_of("processes", workers=2).n_workers
    2
    """
    if engine not in ENGINES:
        raise typer.BadParameter(f"--engine is {engine!r}; expected {', '.join(ENGINES)}")
    for option, value in (("--address", address), ("--gpus-per-worker", gpus_per_worker)):
        if value is not None and engine != "ray":
            raise typer.BadParameter(f"{option} needs --engine ray")
    if engine == "here":
        if workers is not None:
            raise typer.BadParameter("--workers needs --engine processes or --engine ray")
        return Here()
    if engine == "processes":
        from ddsfl.scale.processes import Processes

        return Processes(workers or os.cpu_count() or 1)
    from ddsfl.scale.ray_engine import RayEngine

    return RayEngine(address, workers, gpus_per_worker)


def check_here(engine: str, needs: str) -> None:
    """Refuse an engine for work that is not cut into pieces."""
    if engine in ENGINES[1:]:
        raise typer.BadParameter(f"--engine {engine} needs {needs}")
