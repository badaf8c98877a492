"""The network and table files of a model: a model file has their names and digests, never their folders.

A model file comes from somewhere, so paths in it are not opened. A network or table is used if the user names
it, or if a file with its name and digest lies next to the model file.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any

from ddsfl.compute.words import why_not
from ddsfl.model.file import ModelFileError
from ddsfl.model.settings import Settings
from ddsfl.patches.source import ListSource, Source


@dataclasses.dataclass
class NetworkFiles:
    """The files of the sources that do not see pixels.

    Attributes
    ----------
    files : {"file": name of the file, "fingerprint": of its bytes} by source.
    unchecked : the sources of a loaded model whose files have not been compared with `files` yet.
    beside : those of them that the user did not name; they may lie next to the model file.
    """

    files: dict[str, dict[str, str]]
    unchecked: set[str] = dataclasses.field(default_factory=set)
    beside: frozenset[str] = frozenset()

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

    @classmethod
    def of_loaded(
        cls, files: dict[str, dict[str, str]], sources: Mapping[str, Source], named: Collection[str]
    ) -> NetworkFiles:
        """Return the files of a model that was loaded; the user named those of the sources ``named``."""
        listed = {name for name, source in sources.items() if isinstance(source, ListSource)}
        if listed != files.keys():
            raise ValueError(
                f"networks names {sorted(files)}; expected {sorted(listed)}, the sources that read a file."
            )
        beside = frozenset(listed - set(named))
        # New images have their vectors in a new table, so a table that the user names may be another one.
        return cls(files, {name for name in listed if name in beside or sources[name].must_match}, beside)

    def check(self, sources: Mapping[str, Any], *, named: bool = False) -> None:
        """Raise ModelFileError unless the files of a loaded model are those it was trained with.

        ``named`` checks only those that the user named.
        """
        for name in sorted(self.unchecked - self.beside if named else self.unchecked):
            problem = self._problem(name, sources[name])
            if problem:
                trained, noun = self.files[name], sources[name].noun
                raise ModelFileError(
                    f"source {name!r} needs the {noun} {trained['file']} ({trained['fingerprint']}), but "
                    f"{problem}; pass its path as SceneClassifier.load(..., sources={{{name!r}: path}}), or "
                    f"on the command line as --network {name}=FILE."
                )
            self.unchecked.remove(name)

    def _problem(self, name: str, source: Any) -> str | None:
        """Return in words why the file of a source cannot be used."""
        path, beside = source.file, name in self.beside
        if beside and not os.path.lexists(path):
            return "it is not next to the model file"
        if beside and os.path.islink(path):
            return f"{path} is a link, which is not followed"
        if not os.path.isfile(path):
            return f"there is no file {path}"
        try:
            if source.fingerprint() != self.files[name]["fingerprint"]:
                return f"{path} is a different {source.noun}"
        except OSError as error:
            return f"{path} cannot be read: {why_not(error)}"
        # Whoever made the model file may also have made this one, and its digest does not cover other files.
        if beside and source.needs_other_files():
            return f"{path} keeps its numbers in other files, which are read only if you name it"
        return None


def located(settings: Settings, files: Mapping[str, Mapping[str, str]], folder: str) -> Settings:
    """Return settings whose sources look for their files in ``folder``.

    The paths that the settings came with are dropped: only the names of files are used.
    """
    paths = {}
    for name in _with_files(settings):
        stored = files[name]["file"] if name in files else os.path.basename(settings.sources[name]["path"])
        paths[name] = os.path.join(folder, stored)
    return _with_paths(settings, paths)


def with_named(settings: Settings, named: Mapping[str, str | os.PathLike[str]]) -> Settings:
    """Return settings whose sources read the files that the user named; an unknown name is an error."""
    known = _with_files(settings)
    unknown = sorted(set(named) - set(known))
    if unknown:
        raise ModelFileError(
            f"this model has no source {', '.join(unknown)} that reads a file; "
            f"expected some of {', '.join(known) or 'none'}."
        )
    return _with_paths(settings, {name: os.fspath(path) for name, path in named.items()})


def _with_files(settings: Settings) -> list[str]:
    return [name for name, parameters in settings.sources.items() if "path" in parameters]


def _with_paths(settings: Settings, paths: Mapping[str, str]) -> Settings:
    if not paths:
        return settings
    moved = {name: {**settings.sources[name], "path": path} for name, path in paths.items()}
    return dataclasses.replace(settings, sources={**settings.sources, **moved})


def without_folders(values: Any) -> Any:
    """Return plain settings, or changes of settings by path, with the names of files instead of their paths.

    >>> without_folders({"sources": {"net": {"method": "onnx", "path": "/home/me/net.onnx"}}})
    {'sources': {'net': {'method': 'onnx', 'path': 'net.onnx'}}}
    >>> without_folders({"sources.net.path": "/home/me/net.onnx", "max_side": 200})
    {'sources.net.path': 'net.onnx', 'max_side': 200}
    """
    if isinstance(values, list):
        return [without_folders(value) for value in values]
    if not isinstance(values, dict):
        return values
    return {
        key: os.path.basename(value)
        if isinstance(value, str) and key.rpartition(".")[2] == "path"
        else without_folders(value)
        for key, value in values.items()
    }
