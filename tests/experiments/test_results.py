import numpy as np
import pytest
from scipy import stats

from ddsfl.experiments.results import (
    Summary,
    compare,
    datasets_with_cells,
    is_current,
    provenance,
    read_cells,
    score_of,
    summarise,
)
from tests.support.made_cells import leave_cells, make_cell


def by_split(scores, **values):
    return {str(number): make_cell("sift", score, number, **values) for number, score in enumerate(scores)}


def test_cells_are_read_by_method_and_split(tmp_path):
    leave_cells(tmp_path, "sift", [0.8, 0.81])
    leave_cells(tmp_path, "lbp", [0.7])
    leave_cells(tmp_path, "gist", [0.5], dataset="sports8")
    (tmp_path / "scene15" / "torn.json").write_text("{")
    (tmp_path / "scene15" / "foreign.json").write_text('{"dataset": "other"}')
    by_method = read_cells(tmp_path, "scene15")
    assert {name: list(cells) for name, cells in by_method.items()} == {
        "sift": ["random 1", "random 2"],
        "lbp": ["random 1"],
    }
    assert by_method["sift"]["random 2"]["accuracy"] == 0.81
    assert read_cells(tmp_path, "indoor67") == {}
    (tmp_path / "empty").mkdir()
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "a.json").write_text("{}")
    assert datasets_with_cells(tmp_path) == ["scene15", "sports8", "zoo"]


def test_splits_beyond_the_requested_ones_are_left_out(tmp_path):
    leave_cells(tmp_path, "sift", [0.8] * 7)
    assert len(read_cells(tmp_path, "scene15")["sift"]) == 5  # the protocol's
    assert list(read_cells(tmp_path, "scene15", 2)["sift"]) == ["random 1", "random 2"]
    assert len(read_cells(tmp_path, "scene15", 7)["sift"]) == 7


def test_a_summary_is_mean_and_spread_of_the_scores():
    scores = [0.801, 0.823, 0.79]
    summary = summarise(by_split(scores), 5)
    assert summary.mean == pytest.approx(100 * np.mean(scores))
    assert summary.spread == pytest.approx(100 * np.std(scores, ddof=1))
    assert str(summary) == "80.47 ± 1.68 (3 of 5)"
    assert summarise({}, 5) == Summary((), 5, False)
    assert str(summarise({}, 5)) == "\u2013"
    assert summarise({}, 5).mean is None


def test_secret_labels_give_no_score():
    cell = make_cell("sift", 0.5)
    del cell["mean_class_accuracy"]
    assert score_of({**cell, "mean_average_precision": 0.25}) == 25
    secret = {**cell, "mean_average_precision": None}
    assert summarise({"trainval / test": secret}, 1).scores == ()


def test_cells_of_other_settings_are_marked(tmp_path):
    current = make_cell("ddsfl-2layers+alexnet_pool5", 0.8)
    assert is_current(current)
    older = make_cell("ddsfl-2layers+alexnet_pool5", 0.8)
    del older["settings"]["blocks"][0]["mirrored"]  # a later setting, off by default
    assert is_current(older)
    changed = make_cell("ddsfl-2layers+alexnet_pool5", 0.8)
    changed["settings"]["layers"][0]["bank"]["eta"] = 0.5
    assert not is_current(changed)
    assert summarise({"1": current, "2": changed}, 2).changed
    assert str(summarise({"1": changed}, 1)).endswith(" *")
    assert not is_current({**current, "method": "a removed method"})


@pytest.mark.parametrize("n", [2, 5])
def test_differences_have_the_p_values_of_scipy_and_of_the_correction(n):
    rng = np.random.default_rng(n)
    one, other = rng.uniform(0.7, 0.9, (2, n))
    difference = compare(by_split(one), by_split(other))
    paired = stats.ttest_rel(100 * other, 100 * one)
    assert difference.mean == pytest.approx(100 * (other - one).mean())
    assert difference.spread == pytest.approx(100 * (other - one).std(ddof=1))
    assert (difference.n, difference.p) == (n, pytest.approx(paired.pvalue))
    t = difference.mean / np.sqrt((1 / n + 2985 / 1500) * difference.spread**2)
    assert difference.p_corrected == pytest.approx(2 * (1 - stats.t.cdf(abs(t), n - 1)))
    assert difference.p_corrected > difference.p


def test_only_common_splits_are_compared():
    one, other = by_split([0.5, 0.6, 0.7]), by_split([0.9, 0.7])
    del one["0"]
    difference = compare(one, other)
    assert (difference.n, difference.mean) == (1, pytest.approx(10))
    assert np.isnan([difference.spread, difference.p, difference.p_corrected]).all()
    assert compare(one, {}) is None


def test_p_is_0_for_equal_differences_and_1_for_none():
    assert compare(by_split([0.5, 0.75]), by_split([0.75, 1.0]))[3:] == (0.0, 0.0)
    assert compare(by_split([0.5, 0.75]), by_split([0.5, 0.75]))[3:] == (1.0, 1.0)


def test_provenance_names_everything_once():
    cells = [
        make_cell("sift", 0.5, commit=commit, seed=seed) for commit, seed in (("b", 1), ("a", 0), (None, 0))
    ]
    assert provenance(cells) == {
        "commits": ["a", "b"],
        "devices": ["a device"],
        "versions": ["0.1.0"],
        "seeds": ["0", "1"],
    }
