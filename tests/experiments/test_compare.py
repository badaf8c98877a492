"""Methods on the same splits: the table, its test, and what methods share."""

import dataclasses
import json
import math

import numpy as np
import pytest

from ddsfl.datasets.splits import fold_splits
from ddsfl.experiments import evaluate as evaluation
from ddsfl.experiments.compare import Comparison, method_folder
from ddsfl.experiments.evaluate import Evaluation
from ddsfl.experiments.methods import method
from ddsfl.experiments.results import LEVEL, adjusted
from ddsfl.experiments.spread import Contender, Contest, evaluate_splits
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console
from ddsfl.scale.engine import Here
from tests.support.engines import Far
from tests.support.tiny import TINY, tiny_scenes


def made(scores, n_train=20, n_test=(11, 12, 13, 14, 15), measure="mean_class_accuracy"):
    """Return cells split by split; ``scores`` are in percent, by method."""
    n_splits = len(next(iter(scores.values())))
    return [
        [
            {
                "method": name,
                "split": f"random {at + 1}",
                measure: of_method[at] / 100,
                "n_train": n_train,
                "n_test": n_test[at],
                "seconds": {"words": 1.0 + at, "svm": 2.0, "test": 0.5},
            }
            for name, of_method in scores.items()
        ]
        for at in range(n_splits)
    ]


def two_sided(t, freedom):
    """Twice the tail of Student's density beyond ``t``, by the trapezoidal rule over its substitution."""
    angles = np.linspace(math.atan(abs(t) / math.sqrt(freedom)), math.pi / 2, 200_001)
    values = np.cos(angles) ** (freedom - 1)
    norm = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    return 2 * norm * float(((values[1:] + values[:-1]) / 2 * np.diff(angles)).sum())


def nadeau_bengio(one, other, n_train, n_test):
    """The corrected resampled t-test, as printed: 1/n + n_test/n_train instead of 1/n."""
    differences = [b - a for a, b in zip(one, other)]
    n = len(differences)
    mean = sum(differences) / n
    variance = sum((value - mean) ** 2 for value in differences) / (n - 1)
    share = sum(value / n_train for value in n_test) / n
    return two_sided(mean / math.sqrt((1 / n + share) * variance), n - 1)


SCORES = {
    "a": [70.0, 71.0, 69.0, 72.0, 70.0],
    "b": [80.0, 82.0, 79.0, 83.0, 79.5],
    "c": [70.5, 70.0, 70.0, 73.0, 68.0],
    "d": [66.0, 64.0, 65.0, 66.0, 66.0],
}


def test_the_p_values_are_those_of_plain_loops():
    found = Comparison.of(made(SCORES), "a")
    plain = {name: nadeau_bengio(SCORES["a"], SCORES[name], 20, (11, 12, 13, 14, 15)) for name in "bcd"}
    in_order = sorted(plain, key=plain.get)
    assert in_order == ["b", "d", "c"]
    times = {"b": 3, "d": 2, "c": 1}
    for row in found.rows[1:]:
        assert row.difference.p_corrected == pytest.approx(plain[row.method], rel=1e-5)
        assert row.p == pytest.approx(times[row.method] * plain[row.method], rel=1e-5)
    assert found.rows[0].p is None


def test_differences_are_those_to_the_reference():
    for reference in SCORES:
        found = Comparison.of(made(SCORES), reference)
        assert [row.method for row in found.rows] == list(SCORES)
        for row in found.rows:
            own, base = np.array(SCORES[row.method]), np.array(SCORES[reference])
            assert row.summary.scores == pytest.approx(own)
            if row.method == reference:
                assert (row.difference, row.p, row.verdict(reference)) == (None, None, "the reference")
                continue
            assert row.difference.mean == pytest.approx((own - base).mean())
            assert row.difference.spread == pytest.approx((own - base).std(ddof=1))
            assert row.difference.n == 5


def test_winners_are_declared_only_by_the_test():
    words = {row.method: row.verdict("a") for row in Comparison.of(made(SCORES), "a").rows}
    assert words == {
        "a": "the reference",
        "b": "better than a",
        "c": "no difference can be seen",
        "d": "worse than a",
    }
    row = Comparison.of(made(SCORES), "a").rows[1]
    assert dataclasses.replace(row, p=LEVEL).verdict("a") == "no difference can be seen"


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        ({"a": [50.0], "b": [90.0]}, "a test needs 3 or more splits"),
        ({"a": [50.0, 51.0], "b": [90.0, 90.0]}, "a test needs 3 or more splits"),
        (
            {"a": [50.0, 60.0, 70.0], "b": [60.0, 70.0, 80.0]},
            "the same on all splits, so a test says nothing",
        ),
    ],
)
def test_what_cannot_be_tested_is_not_tested(scores, verdict):
    found = Comparison.of(made(scores), "a")
    row = found.rows[1]
    assert (row.p, row.verdict("a")) == (None, verdict)
    assert f"Differences were not tested: {verdict}." in list(found.notes())
    assert "Nadeau" not in " ".join(found.notes())
    values = json.loads(json.dumps(found.to_json(), allow_nan=False))["methods"][1]
    assert values["difference"]["p"] is None
    assert values["difference"]["splits"] == len(scores["a"])


def test_equal_methods_differ_by_nothing():
    found = Comparison.of(made({"a": [50.0, 60.0, 70.0], "b": [50.0, 60.0, 70.0]}), "a").rows[1]
    assert (found.p, found.verdict("a")) == (1.0, "no difference can be seen")


def test_times_are_of_training_alone_and_of_all_test_images():
    row = Comparison.of(made(SCORES), "a").rows[0]
    assert row.training == pytest.approx(np.mean([3, 4, 5, 6, 7]))
    assert row.speed == pytest.approx((11 + 12 + 13 + 14 + 15) / 2.5)
    cells = made({"a": [50.0], "b": [60.0]})
    cells[0][1]["seconds"]["test"] = 0.0
    assert Comparison.of(cells, "a").rows[1].speed is None


def test_the_table_names_measure_test_and_number_of_comparisons():
    found = Comparison.of(made(SCORES), "a")
    assert "Nadeau and Bengio) and for 3 comparisons (Holm); a difference is seen if p < 0.05." in " ".join(
        found.notes()
    )
    three, two = ({name: SCORES[name] for name in names} for names in ("abc", "ab"))
    assert "and for 2 comparisons (Holm)" in " ".join(Comparison.of(made(three), "a").notes())
    assert "(Nadeau and Bengio); a difference is seen" in " ".join(Comparison.of(made(two), "a").notes())
    table = found.table()
    assert [str(column.header) for column in table.columns][1:5] == [
        "mean class accuracy",
        "training",
        "images/s",
        "over a",
    ]
    assert [str(cell) for cell in table.columns[4].cells] == ["", *[
        f"{np.mean(diff):+.2f} ± {np.std(diff, ddof=1):.2f}"
        for diff in (np.subtract(SCORES[name], SCORES["a"]) for name in "bcd")
    ]]  # fmt: skip
    ranked = Comparison.of(made(SCORES, measure="mean_average_precision"), "a")
    assert ranked.measure == "mean average precision"


def test_json_has_every_number():
    values = json.loads(json.dumps(Comparison.of(made(SCORES), "a").to_json(), allow_nan=False))
    assert values["splits"] == [f"random {number}" for number in range(1, 6)]
    assert [one["method"] for one in values["methods"]] == list("abcd")
    for one in values["methods"]:
        assert one["scores"] == pytest.approx(SCORES[one["method"]])
        assert one["mean"] == pytest.approx(np.mean(SCORES[one["method"]]))
        assert one["spread"] == pytest.approx(np.std(SCORES[one["method"]], ddof=1))
    difference = values["methods"][1]["difference"]
    assert difference["p_paired"] < difference["p_corrected"] < difference["p"]
    assert values["methods"][1]["verdict"] == "better than a"


def test_holms_p_values_by_hand():
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert adjusted([0.6, 0.7]) == [1.0, 1.0]
    assert adjusted([0.2]) == [0.2]
    assert adjusted([]) == []


def test_folders_of_methods_have_plain_names(tmp_path):
    assert method_folder(tmp_path, "ddsfl-2layers:d8+sift") == tmp_path / "ddsfl-2layers_d8+sift"


NAMES = ("rica-1layer", "sift", "rica-1layer+sift")


@pytest.fixture
def contest(tmp_path):
    """Three methods of which the last joins the first two, on three folds."""
    images, labels = tiny_scenes()

    def make(scratch=tmp_path / "out", names=NAMES):
        contenders = []
        for name in names:
            settings = method(name)
            settings = settings.change(settings.applicable(TINY))
            folder = None if scratch is None else method_folder(scratch, name)
            one = Evaluation(settings, name, "ours", 0, "cpu", folder=folder)
            contenders.append(Contender(one, settings.image_list(images)))
        return Contest(contenders, dict(enumerate(labels)), fold_splits(labels, 3, 0), scratch)

    return make


def told(cells):
    return [
        [(cell["method"], cell["split"], cell["split_fingerprint"], cell["predicted"]) for cell in row]
        for row in cells
    ]


def test_methods_share_splits_and_stages_which_are_removed(contest, tmp_path, monkeypatch):
    computed = []
    fit = SceneClassifier.fit

    def counted(self, *given, report, **options):
        def noted(name, found):
            computed.extend([] if found else [name])
            report(name, found)

        return fit(self, *given, report=noted, **options)

    monkeypatch.setattr(SceneClassifier, "fit", counted)
    cells = evaluate_splits(contest(), Here(), Console(quiet=True))
    assert [[cell["method"] for cell in row] for row in cells] == [list(NAMES)] * 3
    for row in cells:
        assert len({(cell["split"], cell["split_fingerprint"]) for cell in row}) == 1
    assert [computed.count(name) for name in ("layer1.bank", "sift.words", "classifier")] == [3, 3, 9]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(NAMES)
    assert len(list((tmp_path / "out").rglob("*"))) == 3 + 9  # three folders of three cells

    alone = evaluate_splits(contest(None), Here(), Console(quiet=True))
    assert told(alone) == told(cells)


def test_finished_cells_are_kept_when_a_later_method_stops(contest, monkeypatch, tmp_path, capsys):
    test_scores = evaluation._test_scores

    def interrupt(asked, *given):
        if asked.method == "sift":
            raise KeyboardInterrupt
        return test_scores(asked, *given)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "_test_scores", interrupt)
        with pytest.raises(KeyboardInterrupt):
            evaluate_splits(contest(), Here(), Console(quiet=True))
    capsys.readouterr()
    evaluate_splits(contest(), Here(), Console())
    err = capsys.readouterr().err.splitlines()
    assert "fold 1 of 3: reused from an earlier run" in err
    assert "fold 1 of 3, sift: sift: words: reused from an earlier run" in err
    assert not any("fold 1 of 3, rica-1layer: " in line for line in err)
    assert len(list((tmp_path / "out").rglob("*"))) == 3 + 9


def test_an_engine_gives_the_same_cells_in_the_same_order(contest, capsys):
    here = evaluate_splits(contest(None), Here(), Console(quiet=True))
    engine = Far()
    far = evaluate_splits(contest(None), engine, Console())
    assert told(far) == told(here)
    assert len(engine.sent) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 9
    assert any(line.startswith("fold 2 of 3, rica-1layer+sift: ") for line in lines)


def test_a_split_that_fails_is_named_at_the_end_and_the_others_are_stored(contest, tmp_path):
    failing = Far(fails=(1,))
    with pytest.raises(ValueError, match=r"^1 of 3 splits failed, the others are finished: fold 2 of 3.$"):
        evaluate_splits(contest(), failing, Console(quiet=True))
    assert len(list((tmp_path / "out").rglob("*.json"))) == 6
