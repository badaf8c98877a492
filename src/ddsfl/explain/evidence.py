"""The evidence of one image: its scores as sums over places.

Shapes: C classes, of which R are explained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ddsfl.explain.block_evidence import Array, BlockEvidence
from ddsfl.explain.labels import class_number
from ddsfl.explain.places import Place, Word, apart


@dataclass(frozen=True, eq=False)  # comparing arrays has no single answer
class Evidence:
    """The scores of one image, taken apart without approximation.

    For every explained class, ``start(c) + map(c).sum() + unplaced(c)`` is the score, up to `error`. By
    default contributions are relative to the average training image: `start` is then that image's score, and
    a map shows what this image says beyond it. Raw maps (``relative=False``) start from the bias.

    A map is no counterfactual: without a place, the lengths that vectors are divided by would change too.
    What is absent from an image leaves no trace on its map.

    Attributes
    ----------
    labels : (C,) all classes.
    classes : the explained classes, the most important first.
    against : the class that the first one is compared with; None if nothing is compared.
    scores, bias : of all classes, by class.
    shape : height and width of the image as given, upright.
    error : the largest difference between a score and the sum of its parts.

    Examples
    --------
    >>> from ddsfl import SceneClassifier, make_scenes
    >>> images, labels = make_scenes(n_per_class=4, random_state=0)
    >>> small = {"layers.bank.n_filters": 16, "blocks.coding.n_words": 32, "layers.bank.max_iter": 5}
    >>> model = SceneClassifier(changes=small, random_state=0).fit(images, labels)
    >>> [evidence] = model.explain(images[:1])
    >>> best, runner_up = evidence.classes
    >>> heat = evidence.map(best)
    >>> heat.shape == evidence.shape
    True
    >>> total = evidence.start(best) + heat.sum() + evidence.unplaced(best)
    >>> bool(abs(total - evidence.scores[best]) < 1e-5)
    True
    """

    labels: Array
    single_label: bool
    numbers: tuple[int, ...]
    against_number: int | None
    scores_by_class: Array
    bias_by_class: Array
    parts: tuple[BlockEvidence, ...]
    shape: tuple[int, int]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {self.scores[name]:.3g}" for name in self.classes)
        return f"<Evidence for {shown}; {self.shape[0]} x {self.shape[1]} pixels>"

    @property
    def classes(self) -> tuple[Any, ...]:
        """The explained classes, the most important first."""
        return tuple(self.labels[list(self.numbers)].tolist())

    @property
    def against(self) -> Any:
        """The class that the first one is compared with, or None."""
        return None if self.against_number is None else self.labels[[self.against_number]].tolist()[0]

    @property
    def predicted(self) -> tuple[Any, ...]:
        """What the classifier says: one class, or for several labels per image all with a score above 0."""
        if self.single_label:
            return (self.labels.tolist()[int(self.scores_by_class.argmax())],)
        return tuple(self.labels[self.scores_by_class > 0].tolist())

    @property
    def scores(self) -> dict[Any, float]:
        """The scores of all classes, as ``decision_function`` gives them."""
        return dict(zip(self.labels.tolist(), self.scores_by_class.tolist()))

    @property
    def bias(self) -> dict[Any, float]:
        """The biases of all classes."""
        return dict(zip(self.labels.tolist(), self.bias_by_class.tolist()))

    @property
    def has_average(self) -> bool:
        """Whether maps relative to the average training image are available."""
        return all(part.average is not None for part in self.parts)

    @property
    def error(self) -> float:
        """The largest difference between the score of an explained class and the sum of its parts."""
        numbers = list(self.numbers)
        sums = self.bias_by_class[numbers] + sum(part.totals for part in self.parts)
        return float(np.abs(sums - self.scores_by_class[numbers]).max())

    def map(
        self,
        name: Any,
        block: str | None = None,
        relative: bool = True,
        *,
        shape: tuple[int, int] | None = None,
    ) -> Array:
        """Return the map (height, width) of a class: what each pixel of the image says for it.

        Parameters
        ----------
        name : an explained class.
        block : of this block alone; None adds all blocks.
        relative : relative to the average training image.
        shape : height and width of the map; those of the image as given by default. The sum stays the same.
        """
        return self._heat(self._mix(name), block, relative, shape)

    def difference(
        self,
        a: Any = None,
        b: Any = None,
        block: str | None = None,
        relative: bool = True,
        *,
        shape: tuple[int, int] | None = None,
    ) -> Array:
        """Return the map of class ``a`` less that of ``b``; by default of the first class and `against`."""
        return self._heat(self._pair(a, b), block, relative, shape)

    def start(self, name: Any, against: Any = None, relative: bool = True) -> float:
        """Return what a score starts from: the bias, or the score of the average training image.

        With ``against``, of the difference of two classes; so for all methods below.
        """
        mix = self._mix(name, against)
        start = float(self.bias_by_class[list(self.numbers)] @ mix)
        if relative:
            self._check_average()
            start += sum(part.total(mix, False) - part.total(mix, True) for part in self.parts)
        return start

    def blocks(self, name: Any, against: Any = None, relative: bool = True) -> dict[str, float]:
        """Return what each block adds; with `start`, the sum is the score."""
        mix = self._mix(name, against)
        if relative:
            self._check_average()
        return {part.block.name: part.total(mix, relative) for part in self.parts}

    @property
    def unplaced_blocks(self) -> tuple[str, ...]:
        """The blocks without places, such as networks and GIST."""
        return tuple(part.block.name for part in self.parts if part.fields is None)

    def unplaced(self, name: Any, against: Any = None, relative: bool = True) -> float:
        """Return what the blocks without places add together."""
        blocks = self.blocks(name, against, relative)
        return sum(blocks[block] for block in self.unplaced_blocks)

    def top(
        self,
        n: int = 8,
        name: Any = None,
        against: Any = None,
        *,
        speaking: Literal["for", "against"] = "for",
    ) -> list[Place]:
        """Return the places that speak loudest for (or against) a class, no two on nearly the same place.

        Without ``name`` for the first class, and without both rather than `against`.
        """
        return self._loudest(_number(n), self._asked(name, against), _sign(speaking))

    def words(
        self,
        n: int = 8,
        name: Any = None,
        against: Any = None,
        *,
        speaking: Literal["for", "against"] = "for",
        n_places: int = 4,
    ) -> list[Word]:
        """Return the words (or Gaussians) here that speak loudest for (or against) a class, and where.

        Values are relative to the average training image if that is known. Words that are missing here but
        usual elsewhere have no place and are not listed.
        """
        mix, sign = self._asked(name, against), _sign(speaking)
        found = sorted(
            ((value, part.block.name, word) for part in self.parts for word, value in part.words(mix, sign)),
            key=lambda item: -abs(item[0]),
        )
        return [
            Word(block, word, value, tuple(self._loudest(n_places, mix, sign, (block, word))))
            for value, block, word in found[: _number(n)]
        ]

    def patches(
        self, block: str, word: int, n: int = 4, name: Any = None, against: Any = None
    ) -> list[tuple[Array, Any]]:
        """Return training patches that say the same through a word, and the classes of their images.

        Empty if the training images are not at hand: see `SceneClassifier.collect_patches`.
        """
        mix = self._asked(name, against)
        [part] = [part for part in self.parts if part.block.name == block]
        return [(pixels, self.labels.tolist()[label]) for pixels, label in part.show(word, n, mix)]

    def _loudest(self, n: int, mix: Array, sign: int, only: tuple[str, int] | None = None) -> list[Place]:
        """Return the loudest places, of one word of one block or of all."""
        # Many voices lie on the same place, so more are looked at than are listed.
        found = [
            place
            for part in self.parts
            if only is None or part.block.name == only[0]
            for place in part.places(40 * n, mix, sign, self.shape, None if only is None else only[1])
        ]
        return apart(sorted(found, key=lambda place: -abs(place.value)), n)

    def _heat(self, mix: Array, block: str | None, relative: bool, shape: tuple[int, int] | None) -> Array:
        if relative:
            self._check_average()
        names = [part.block.name for part in self.parts]
        if block is not None and block not in names:
            raise ValueError(f"block={block!r} is unknown; expected one of {', '.join(names)}.")
        shape = self.shape if shape is None else shape
        heat = np.zeros(shape)
        for part in self.parts:
            if block in (None, part.block.name):
                heat += part.heat(mix, relative, shape)
        return heat

    def _pair(self, a: Any = None, b: Any = None) -> Array:
        """Return the `_mix` of two classes, by default of the first and the one it is compared with."""
        first = 0 if a is None else self._column(a, "a")
        if b is not None:
            return self._parts(first, self._column(b, "b"))
        if self.against_number is None:
            return self._parts(first)
        second = self.numbers.index(self.against_number)
        return self._parts(first, 0 if first == second else second)

    def _asked(self, name: Any, against: Any) -> Array:
        """Return the `_mix` of what was asked for, by default of the pair."""
        if name is None and against is None:
            return self._pair()
        return self._mix(self.classes[0] if name is None else name, against)

    def _mix(self, name: Any, against: Any = None) -> Array:
        """Return (R,), the parts of the explained classes in the score of a class, or in a difference."""
        first = self._column(name, "name")
        return self._parts(first, None if against is None else self._column(against, "against"))

    def _parts(self, first: int, second: int | None = None) -> Array:
        mix = np.zeros(len(self.numbers))
        mix[first] = 1
        if second is not None:
            mix[second] -= 1
        return mix

    def _column(self, name: Any, argument: str) -> int:
        number = class_number(self.labels, name, argument)
        if number not in self.numbers:
            explained = ", ".join(map(str, self.classes))
            raise ValueError(
                f"{argument}={str(name)!r} was not explained; expected one of {explained}. Other classes are "
                "explained by explain(images, classes=[...])."
            )
        return self.numbers.index(number)

    def _check_average(self) -> None:
        if not self.has_average:
            raise ValueError(
                "relative=True needs the average training image, which this model lacks: an older ddsfl "
                "saved it. Expected relative=False, or a model trained again."
            )


def _number(n: int) -> int:
    if n < 0:
        raise ValueError(f"n={n} is negative; expected at least 0.")
    return n


def _sign(speaking: str) -> int:
    if speaking not in ("for", "against"):
        raise ValueError(f"speaking={speaking!r} is unknown; expected 'for' or 'against'.")
    return 1 if speaking == "for" else -1
