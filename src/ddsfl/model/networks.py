"""The files that deep blocks read, networks and tables: which ones, and whether they are still the same."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ddsfl.descriptors.registry import make_source
from ddsfl.model.file import ModelFileError
from ddsfl.model.settings import Settings

if TYPE_CHECKING:
    from ddsfl.model.classifier import SceneClassifier


#: {"file": name of the file, "fingerprint": of its bytes} of each deep source.
Networks = dict[str, dict[str, str]]


def find_networks(settings: Settings) -> Networks:
    """Return which files the deep sources of the blocks read, by source; a missing one is an error."""
    found: Networks = {}
    for block in settings.blocks:
        if settings.kind(block) == "deep":
            parameters = settings.source(block.source)
            if parameters["method"] == "callable":  # nobody can say whether two functions are the same
                found[block.source] = {"file": "", "fingerprint": secrets.token_hex(8)}
                continue
            path = os.fspath(parameters["path"])
            if not os.path.isfile(path):
                raise ValueError(f"source {block.source}: path={path} does not exist; expected a file.")
            fingerprint = make_source(parameters).fingerprint()
            found[block.source] = {"file": os.path.basename(path), "fingerprint": fingerprint}
    return found


def check_networks(model: SceneClassifier) -> None:
    """Raise ModelFileError unless the networks of a loaded model are those it was trained with.

    Tables may be others: the vectors of new images stand in a new table.
    """
    for name in sorted(model.unchecked_):
        path, network = model.settings_.source(name)["path"], model.networks_[name]
        wanted = f"source {name!r} needs the network {network['file']} ({network['fingerprint']})"
        place = (
            f"say where it is by SceneClassifier.load(..., sources={{{name!r}: path}}), "
            f"on the command line by --network {name}=FILE"
        )
        if not os.path.isfile(path):
            raise ModelFileError(f"{wanted}, but there is no file {path}; {place}.")
        found = model.sources_[name].fingerprint()
        if found != network["fingerprint"]:
            raise ModelFileError(f"{wanted}, but {path} is another one ({found}); {place}.")
        model.unchecked_.remove(name)


def moved_sources(settings: Settings, moved: Mapping[str, str | os.PathLike[str]]) -> Settings:
    """Return settings with other paths of the files that sources read."""
    with_files = [name for name, parameters in settings.sources.items() if "path" in parameters]
    unknown = sorted(set(moved) - set(with_files))
    if unknown:
        raise ModelFileError(
            f"this model has no source {', '.join(unknown)} that reads a file; "
            f"expected some of {', '.join(with_files) or 'none'}."
        )
    sources = {
        name: {**parameters, "path": os.fspath(moved[name])} if name in moved else parameters
        for name, parameters in settings.sources.items()
    }
    return dataclasses.replace(settings, sources=sources)
