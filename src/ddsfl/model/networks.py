"""The network and table files of a model, and the check that networks have not changed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from ddsfl.model.file import ModelFileError
from ddsfl.model.settings import Settings
from ddsfl.patches.source import ListSource, Source


@dataclasses.dataclass
class NetworkFiles:
    """The files of the sources that do not see pixels.

    Attributes
    ----------
    files : {"file": name of the file, "fingerprint": of its bytes} by source.
    unchecked : the sources of a loaded model whose networks have not been compared with `files` yet.
    """

    files: dict[str, dict[str, str]]
    unchecked: set[str] = dataclasses.field(default_factory=set)

    @classmethod
    def of(cls, sources: Mapping[str, Source]) -> NetworkFiles:
        """Return the files that the sources of a fit read; a missing file raises ValueError."""
        files = {}
        for name, source in sources.items():
            if isinstance(source, ListSource):
                path = source.file
                if path is not None and not os.path.isfile(path):
                    raise ValueError(f"source {name}: path={path} does not exist; expected a file.")
                file = "" if path is None else os.path.basename(path)
                files[name] = {"file": file, "fingerprint": source.fingerprint()}
        return cls(files)

    def check(self, sources: Mapping[str, Any]) -> None:
        """Raise ModelFileError unless the networks of a loaded model are those it was trained with."""
        for name in sorted(self.unchecked):
            path, trained = sources[name].file, self.files[name]
            wanted = f"source {name!r} needs the network {trained['file']} ({trained['fingerprint']})"
            place = (
                f"pass its new path as SceneClassifier.load(..., sources={{{name!r}: path}}), "
                f"or on the command line as --network {name}=FILE"
            )
            if not os.path.isfile(path):
                raise ModelFileError(f"{wanted}, but there is no file {path}; {place}.")
            fingerprint = sources[name].fingerprint()
            if fingerprint != trained["fingerprint"]:
                raise ModelFileError(f"{wanted}, but {path} is a different network ({fingerprint}); {place}.")
            self.unchecked.remove(name)


def moved_sources(settings: Settings, moved: Mapping[str, str | os.PathLike[str]]) -> Settings:
    """Return settings with new paths of the files that sources read."""
    if not moved:
        return settings
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
