"""The tables of the paper: which rows each has, which method makes a row, and what the paper prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ddsfl.experiments import published
from ddsfl.experiments.methods import FIVE_VIEWS
from ddsfl.experiments.published import by_set

#: Networks used in place of the paper's Caffe features, by the names of their files.
NETWORKS = ("alexnet_pool5", "efficientnet_lite0")

#: Bank sizes of the paper's figure, and that of preset `paper`.
BANK_SIZES = (128, 256, 400, 512, 1024, 2048)


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes
    ----------
    label : its name in the table.
    method : the method of its numbers, see `methods.method`; None: cited, never run.
    paper : the paper's numbers in percent, by data set.
    """

    label: str
    method: str | None
    paper: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TableOfRows:
    """The definition of a table.

    Attributes
    ----------
    name, title : name and title of the table.
    rows : the rows in order.
    notes : explanations below the table.
    pairs : methods to compare split by split, the second minus the first.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()

    def suits(self, dataset: str) -> bool:
        """Return whether a data set belongs in this table; VOC has its own table."""
        return dataset.startswith("voc") == (self.name == "voc")

    @property
    def methods(self) -> list[str]:
        """The methods of the rows, each once."""
        return list(dict.fromkeys(row.method for row in self.rows if row.method is not None))


def table(name: str, networks: Sequence[str] = NETWORKS) -> TableOfRows:
    """Return the rows of a table; ``networks`` names those used in place of Caffe.

    >>> [row.label for row in table("layers").rows][3:6]
    ['RICA, 1 layer', 'RICA, 2 layers', 'RICA, 3 layers']
    >>> table("features").rows[2].paper["scene15"]
    82.06
    """
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}; expected one of {', '.join(TABLES)}.")
    return TABLES[name](networks)


def _features(networks: Sequence[str]) -> TableOfRows:
    methods = {
        "GIST": "gist",
        "CENTRIST": "centrist",
        "SIFT": "sift",
        "HOG2x2": "hog2x2",
        "LBP": "lbp",
        "OTC": "otc",
        "Random": "random-3layers",
        "RICA": "rica-3layers",
        "DDSFL": "ddsfl-3layers",
    }
    rows = [Row(label, method, by_set(published.FEATURES[label])) for label, method in methods.items()]
    for network in networks:
        rows += _beside(network, lambda label: by_set(published.FEATURES[label]))
    pairs = [("rica-3layers", "ddsfl-3layers"), ("sift", "ddsfl-3layers")]
    for network in networks:
        joined = f"ddsfl-3layers+{network}"
        pairs += [("ddsfl-3layers", joined), (network, joined), (f"sift+{network}", joined)]
    notes = (
        "The paper's network is Caffe's fc6. The networks here are others, named in their rows; the numbers "
        "next to them are the paper's for Caffe.",
    )
    return TableOfRows("features", "Features", tuple(rows), notes, tuple(pairs))


def _beside(network: str, paper: Callable[[str], Mapping[str, float]]) -> list[Row]:
    """Return the rows of a network alone, with SIFT and with DDSFL."""
    return [
        Row(network, network, paper("Caffe")),
        Row(f"SIFT + {network}", f"sift+{network}", paper("SIFT + Caffe")),
        Row(f"DDSFL + {network}", f"ddsfl-3layers+{network}", paper("DDSFL + Caffe")),
    ]


def _voc(networks: Sequence[str]) -> TableOfRows:
    def paper(label: str) -> Mapping[str, float]:
        return {"voc2012": published.VOC[label][-1]}

    methods = {
        "SIFT": "sift",
        "HOG2x2": "hog2x2",
        "LBP": "lbp",
        "Random": "random-3layers",
        "RICA": "rica-3layers",
        "DDSFL": "ddsfl-3layers",
    }
    rows = [Row(label, method, paper(label)) for label, method in methods.items()]
    for network in networks:
        rows += _beside(network, paper)
    notes = (
        "Mean average precision, trained on the list train and tested on val. The paper's numbers are for "
        "the test set, after training on trainval. The labels of the test set are secret, so "
        "`--dataset voc2012-test` writes the files for VOC's server instead of a score.",
    )
    pairs = (("rica-3layers", "ddsfl-3layers"),)
    return TableOfRows("voc", "PASCAL VOC 2012", tuple(rows), notes, pairs)


def _components(networks: Sequence[str]) -> TableOfRows:
    methods = {
        "Random": "random-2layers",
        "L_u": "rica-2layers",
        "L_u + L_sha": "ddsfl-2layers:sharing",
        "L_sha": "ddsfl-2layers:sharing-alone",
        "all, without exemplars": "ddsfl-2layers:any-patches",
        "all, SVM exemplars": "ddsfl-2layers:svm",
        "all, NN exemplars": "ddsfl-2layers",
    }
    rows = [Row(label, method, by_set(published.COMPONENTS[label])) for label, method in methods.items()]
    rows[1] = Row("L_u (RICA)", rows[1].method, rows[1].paper)
    rows.append(Row("all, NN exemplars, margin 1 and eta 1", "ddsfl-2layers:as-printed", rows[-1].paper))
    notes = (
        "Two layers. Without exemplars, the class terms are learned from as many patches as there would be "
        "exemplars, chosen at random; the paper used all patches.",
        "The last row uses the margin that the paper prints, 1, and eta 1; preset `paper` uses margin 0.05 "
        "and eta 0.005.",
    )
    pairs = [("rica-2layers", row.method) for row in rows[2:] if row.method is not None]
    pairs.append(("ddsfl-2layers:any-patches", "ddsfl-2layers"))
    return TableOfRows("components", "Components, two layers", tuple(rows), notes, tuple(pairs))


def _layers(networks: Sequence[str]) -> TableOfRows:
    rows = [
        Row(f"{label}, {number} layer{'s' * (number > 1)}", _stack(label, number), by_set(numbers))
        for label, each in published.LAYERS.items()
        for number, numbers in enumerate(each, start=1)
    ]
    pairs = [(_stack("RICA", number), _stack("DDSFL", number)) for number in (1, 2, 3)]
    for label in ("RICA", "DDSFL"):
        plain = f"{_stack(label, 3)}:magnitudes"
        paper = by_set(published.LAYERS[label][2])
        rows.append(Row(f"{label}, 3 layers, magnitudes alone, equal weights", plain, paper))
        pairs.append((plain, _stack(label, 3)))
        pairs += [(_stack(label, number), _stack(label, number + 1)) for number in (1, 2)]
    notes = (
        "The last two rows use the paper's descriptors, |W x| without signs, and equal weights of all "
        "layers; preset `paper` keeps the signs and gives the third layer half the weight.",
    )
    return TableOfRows("layers", "Number of layers", tuple(rows), notes, tuple(pairs))


def _stack(label: str, n_layers: int) -> str:
    return f"{label.lower()}-{n_layers}layer{'s' * (n_layers > 1)}"


def bank_method(n_layers: int, n_filters: int) -> str:
    """Return the method of DDSFL with a given number of filters; preset `paper` has 400.

    >>> bank_method(1, 128), bank_method(2, 400)
    ('ddsfl-1layer:d128', 'ddsfl-2layers')
    """
    return _stack("DDSFL", n_layers) + ("" if n_filters == 400 else f":d{n_filters}")


def _bank_size(networks: Sequence[str]) -> TableOfRows:
    rows = [
        Row(f"{size} filters, {number} layer{'s' * (number > 1)}", bank_method(number, size))
        for number in (1, 2, 3)
        for size in BANK_SIZES
    ]
    notes = ("The paper shows these results as a figure without numbers.",)
    return TableOfRows("bank-size", "Size of the filter bank", tuple(rows), notes)


def _coding(networks: Sequence[str]) -> TableOfRows:
    rows = (
        Row("LLC, max pooling", "ddsfl-1layer", by_set(published.LAYERS["DDSFL"][0])),
        Row("LLC, average pooling", "ddsfl-1layer:llc-average"),
        Row("vector quantisation, max pooling", "ddsfl-1layer:vq-max"),
        Row("vector quantisation, average pooling", "ddsfl-1layer:vq-average"),
    )
    return TableOfRows("coding", "Coding and pooling, DDSFL with one layer", rows)


def _colour(networks: Sequence[str]) -> TableOfRows:
    rows = (Row("gray", "ddsfl-2layers"), Row("L*a*b", "ddsfl-2layers:lab"))
    notes = (
        "Two layers. The paper tried one layer on UIUC Sports and reports a gain of about one point. "
        "The images of Scene 15 are gray.",
    )
    return TableOfRows(
        "colour", "Gray against colour", rows, notes, (("ddsfl-2layers", "ddsfl-2layers:lab"),)
    )


def _published(networks: Sequence[str]) -> TableOfRows:
    rows = [Row(f"{label} (cited)", None, by_set(numbers)) for label, numbers in published.OTHERS.items()]
    for network in networks:
        rows.append(_beside(network, lambda label: by_set(published.FEATURES[label]))[-1])
    for method in ("best", *(f"best+{network}" for network in networks)):
        rows.append(Row(method.replace("+", " + "), method))
    notes = (
        "The paper cites the numbers of other methods from their publications; these methods were not run "
        "here. The paper's number for DDSFL + network is that of its DDSFL + Caffe.",
    )
    return TableOfRows("published", "Other methods", tuple(rows), notes)


def _best(networks: Sequence[str]) -> TableOfRows:
    rows = [
        Row("DDSFL (preset paper)", "ddsfl-3layers", by_set(published.FEATURES["DDSFL"])),
        Row("best", "best"),
    ]
    pairs = [("ddsfl-3layers", "best")]
    for network in networks:
        for seen in (network, f"{network}:{FIVE_VIEWS}"):
            label = seen.replace(f":{FIVE_VIEWS}", " in five views")
            rows += [Row(label, seen), Row(f"best + {label}", f"best+{seen}")]
            pairs.append((seen, f"best+{seen}"))
        pairs.append((f"best+{network}", f"best+{network}:{FIVE_VIEWS}"))
    notes = (
        "Networks see the complete image or, in five views, its corners and its centre; the vector is then "
        "the mean over the views.",
    )
    return TableOfRows("best", "Preset best", tuple(rows), notes, tuple(pairs))


def _complement(networks: Sequence[str]) -> TableOfRows:
    rows = [Row("DDSFL", "ddsfl-3layers", by_set(published.FEATURES["DDSFL"]))]
    rows += [Row(network, network, by_set(published.FEATURES["Caffe"])) for network in networks]
    notes = ("Of the 67 classes of MIT Indoor, the paper's DDSFL is better on 14 and Caffe on 53.",)
    return TableOfRows("complement", "DDSFL and networks, class by class", tuple(rows), notes)


TABLES: Mapping[str, Callable[[Sequence[str]], TableOfRows]] = {
    "features": _features,
    "voc": _voc,
    "components": _components,
    "layers": _layers,
    "bank-size": _bank_size,
    "coding": _coding,
    "colour": _colour,
    "published": _published,
    "complement": _complement,
    "best": _best,
}
