"""Settings: presets changed by path and value, as words of a command line, in Python, or as stored values."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer

from attacks.mutations import ODD_NUMBERS, chance, mutated, near_miss, odd_text, odd_value, pick
from ddsfl.cli.inputs import changed_settings
from ddsfl.coding.registry import CODINGS
from ddsfl.descriptors.registry import METHODS
from ddsfl.images.scenes import make_scenes
from ddsfl.learning.exemplars import SELECTORS
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.presets import PRESETS
from ddsfl.model.settings import Settings

#: What makes a fit a matter of seconds; two layers, everything else as small as possible.
TINY: dict[str, Any] = {
    "layers.bank.n_filters": 6,
    "layers.bank.max_iter": 2,
    "layers.bank.rounds": 1,
    "layers.bank.round_iter": 2,
    "layers.n_components": 8,
    "layers.n_scales": 1,
    "layers.patches_per_image": 10,
    "blocks.coding.n_words": 12,
    "blocks.coding.max_iter": 2,
}
#: Numbers of repetitions: whoever asks for a million of them has to wait. Memory grows with the square of the
#: filters that a layer above sees.
_PATIENCE, _SIZE, _LARGE = ("max_iter", "rounds", "round_iter", "cv", "Cs"), "n_filters", 500
_WORDS = (
    *("cv", "balanced", "max", "average", "gray", "lab", "rgb", "fast", "exact", "stack", "none", "auto"),
    *(*CODINGS, *SELECTORS, *METHODS),
)


@dataclass
class Case:
    """Settings: how they are given, from which preset, and what is changed."""

    kind: str
    preset: Any
    changes: Any
    arguments: dict[str, Any] = field(default_factory=dict)


class Domain:
    """Settings that are wrong, odd or extreme."""

    name = "settings"

    def prepare(self, folder: Path) -> None:
        images, labels = make_scenes(n_per_class=2, random_state=0, size=64)
        kept = sorted(set(labels))[:2]
        self.images = [image for image, label in zip(images, labels) if label in kept]
        self.labels = [label for label in labels if label in kept]
        self.stored = {name: settings.to_json() for name, settings in PRESETS.items()}
        self.paths = {name: _paths(values) for name, values in self.stored.items()}

    def case(self, rng: np.random.Generator, folder: Path) -> Case:
        kind = pick(rng, ("words", "words", "python", "python", "stored", "fit", "fit", "fit", "seeded"))
        name = "quick" if kind == "fit" else pick(rng, list(PRESETS))
        if kind == "seeded":
            device = pick(rng, ("cpu", "gpu", "cuda:99", odd_value(rng)))
            return Case(kind, "quick", TINY, {"device": device, "random_state": odd_value(rng)})
        if kind == "stored":
            return Case(kind, None, self._stored(rng, name))
        changes = dict(self._change(rng, name) for _ in range(int(rng.integers(1, 4))))
        if kind == "words":
            words = [f"{path}={_as_word(rng, value)}" for path, value in changes.items()]
            return Case(kind, pick(rng, (name, name, name, near_miss(rng, name), odd_text(rng))), words)
        if kind == "fit":
            return Case(kind, "quick", {**TINY, **dict(filter(_is_affordable, changes.items()))})
        return Case(
            kind, pick(rng, (name, name, name, odd_value(rng))), pick(rng, (changes,) * 9 + (odd_value(rng),))
        )

    def may_open(self, case: Case) -> list[Path]:
        return []

    def attempt(self, case: Case) -> str:
        try:
            settings = self._settings(case)
        except typer.BadParameter:
            return "refused"
        except ValueError as error:
            if case.kind == "words" or not _is_sentence(error):
                raise
            return "refused"
        assert isinstance(settings, Settings), "no settings"
        if case.kind in ("fit", "seeded"):
            return self._fit(
                SceneClassifier(settings, **{"device": "cpu", "random_state": 0, **case.arguments})
            )
        text = json.dumps(settings.to_json())
        assert Settings.from_json(json.loads(text)) == settings, "stored settings differ"
        assert settings.make_sources("cpu"), "no sources"
        return "accepted"

    def _settings(self, case: Case) -> Settings:
        if case.kind == "words":
            return changed_settings(case.preset, case.changes)
        if case.kind == "stored":
            return Settings.from_json(case.changes)
        return SceneClassifier(case.preset, changes=case.changes).settings_to_fit()

    def _fit(self, model: SceneClassifier) -> str:
        try:
            model.fit(self.images, self.labels)
        except ValueError as error:
            if not _is_sentence(error):
                raise
            return "refused"
        scores = model.decision_function(self.images)
        assert np.isfinite(scores).all(), "scores are not finite"
        return "accepted"

    def _change(self, rng: np.random.Generator, name: str) -> tuple[str, Any]:
        """Return a path and its new value: half of the time like the present one, else anything."""
        path = pick(rng, list(self.paths[name]))
        present = self.paths[name][path]
        if chance(rng, 0.5):
            return self._odd_path(rng, path), self._value(rng)
        if isinstance(present, bool):
            return path, not present
        if isinstance(present, int | float):
            return path, pick(
                rng, (0, 1, present + 1, present * 2, present * 10, present * 1000, present / 3)
            )
        return path, pick(rng, _WORDS) if isinstance(present, str) else self._value(rng)

    def _odd_path(self, rng: np.random.Generator, path: str) -> str:
        odd = int(rng.integers(0, 20))
        if odd == 0:
            return near_miss(rng, path)
        if odd == 1:
            return odd_text(rng)
        if odd == 2:
            return f"{path}.{pick(rng, (odd_text(rng), '0', '99999999999', 'method', 'n_words'))}"
        if odd == 3:
            return pick(
                rng, ("sources.x", "sources.sift.method", "classifier.C", "classifier.Cs", "classifier")
            )
        return path

    def _value(self, rng: np.random.Generator) -> Any:
        kind = int(rng.integers(0, 6))
        if kind == 0:
            return odd_value(rng)
        if kind == 1:
            return pick(rng, _WORDS)
        if kind == 2:
            return {
                "method": pick(rng, _WORDS),
                **({odd_text(rng): odd_value(rng)} if chance(rng, 0.3) else {}),
            }
        if kind == 3:
            return pick(
                rng, (None, True, False, [[1, 1]], [[1, 1], [2, 2]], [[100, 100]] * 20, [[3, 1], [1, 1]])
            )
        if kind == 4:
            return pick(rng, ODD_NUMBERS)
        return int(rng.integers(0, pick(rng, (4, 20, 300, 2000, 100_000))))

    def _stored(self, rng: np.random.Generator, name: str) -> Any:
        """Return stored settings with values replaced, removed or repeated; or damaged JSON that parses."""
        values = copy.deepcopy(self.stored[name])
        if chance(rng, 0.2):
            text = mutated(rng, json.dumps(values).encode(), most=2).decode(errors="replace")
            try:
                values = json.loads(text)
            except (ValueError, RecursionError):
                values = {}
            return values
        for _ in range(int(rng.integers(1, 4))):
            place: Any = values
            while isinstance(place, dict | list) and place and chance(rng, 0.8):
                key: Any = pick(rng, list(place) if isinstance(place, dict) else range(len(place)))
                if not isinstance(place[key], dict | list) or chance(rng, 0.3):
                    break
                place = place[key]
            else:
                continue
            odd = int(rng.integers(0, 4))
            if odd == 0:
                del place[key]
            elif odd == 1 and isinstance(place, list):
                place.extend([place[key]] * int(pick(rng, (1, 30, 200))))
            elif odd == 1 and isinstance(place, dict):
                place[pick(rng, (near_miss(rng, str(key)), odd_text(rng)))] = place[key]
            else:
                place[key] = self._value(rng)
        return values


def _is_affordable(change: tuple[str, Any]) -> bool:
    path, value = change
    large = path.endswith(_SIZE) and isinstance(value, int | float) and value > _LARGE
    return not large and not path.endswith(_PATIENCE)


def _paths(values: Any, before: str = "") -> dict[str, Any]:
    """Return all values by their paths, with and without the numbers of items."""
    paths: dict[str, Any] = {}
    pairs = (
        values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    )
    for key, item in pairs:
        paths |= {f"{before}{key}": item, **_paths(item, f"{before}{key}.")}
        if isinstance(values, list):
            paths |= _paths(item, before)
    return paths


def _as_word(rng: np.random.Generator, value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value)
    if chance(rng, 0.05):
        return "[" * 100_000
    return mutated(rng, text.encode(), most=2).decode(errors="replace") if chance(rng, 0.2) else text


def _is_sentence(error: ValueError) -> bool:
    """Return whether an error is one of the product, not of what it calls."""
    return type(error).__module__.startswith(("builtins", "ddsfl")) and str(error).endswith((".", "?"))
