"""The search on tiny scenes, and with made-up scores."""

import json

import numpy as np
import pytest

from ddsfl.datasets.splits import fold_splits
from ddsfl.experiments import search
from ddsfl.experiments.axes import GRIDS
from ddsfl.experiments.evaluate import Evaluation
from ddsfl.experiments.search import Search, Trial, search_settings
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.presets import preset
from ddsfl.report.console import Console
from tests.support.tiny import TINY, tiny_scenes

SETTINGS = preset("quick").change(TINY)


@pytest.fixture
def scenes():
    images, labels = tiny_scenes(n_per_class=4, classes=2)
    return SETTINGS.image_list(images), labels


@pytest.fixture
def made_up(monkeypatch):
    """Replace training by a function of the settings; returns that function's place and what was asked."""

    class MadeUp:
        asked = ()

        def score(self, settings):
            return 0.5

    made = MadeUp()

    def evaluate(evaluation, images, labels, split, console):
        made.asked = (*made.asked, (evaluation.settings, split.name))
        return {"mean_class_accuracy": made.score(evaluation.settings)}

    monkeypatch.setattr(search, "evaluate_split", evaluate)
    return made


def shown(result):
    return [(trial.name, trial.value) for trial in result.trials]


def weights(settings):
    return {name: settings.layers[0].bank.get(name, 0.0) for name in GRIDS["weights"]}


def test_each_setting_is_varied_from_the_best_settings_so_far(scenes, made_up, tmp_path):
    def score(settings):
        eta, gamma = weights(settings)["eta"], weights(settings)["gamma"]
        return 0.5 - abs(gamma - 0.1) - abs(eta - 10 * gamma)  # eta is best at 0.3, or at 1 with gamma 0.1

    made_up.score = score
    start = SETTINGS.change({"layers.bank.gamma": 0.03, "layers.bank.eta": 0.3})
    axes = {"gamma": (0.0, 0.03, 0.1), "eta": (0.3, 1.0)}
    result = search_settings(*scenes, tmp_path, settings=start, axes=axes, n_folds=2)
    # With eta 0.3, gamma 0.03 remains the best; it is the start and is not tried again.
    assert shown(result) == [("start", ""), ("gamma", 0.0), ("gamma", 0.1), ("eta", 1.0)]
    assert weights(result.trials[-1].settings)["gamma"] == 0.03
    assert result.best is result.trials[0]


def test_the_search_ends_with_the_best_thing_it_saw(scenes, made_up, tmp_path):
    """Weights used to start at 0, so that the search could end below a candidate that it had seen."""
    made_up.score = lambda settings: 0.708 if weights(settings) == weights(SETTINGS) else 0.667
    result = search_settings(*scenes, tmp_path, settings=SETTINGS, axes=GRIDS["weights"], n_folds=2)
    assert shown(result)[0] == ("start", "")
    assert result.best.settings == SETTINGS
    assert result.best.mean == max(trial.mean for trial in result.trials) == pytest.approx(70.8)


def test_the_first_of_equal_trials_is_the_best(scenes, made_up, tmp_path):
    result = search_settings(*scenes, tmp_path, settings=SETTINGS, axes={"eta": (0.0, 0.1)}, n_folds=2)
    assert len(result.trials) == 3
    assert result.best is result.trials[0]
    one, other = (Trial(name, 1, SETTINGS, (50.0, 70.0, 45.0)) for name in "ab")
    assert Search((one, other)).best is one
    assert one.mean == 55


def test_a_preset_is_varied_first_and_the_others_from_the_better_one(scenes, made_up, tmp_path):
    made_up.score = lambda settings: len(settings.layers) / 10 + (settings.classifier["C"] == 10) / 100
    axes = {"C": (1, 10), "preset": ("paper", "best")}
    changes = {path: value for path, value in TINY.items() if "coding" not in path}
    start = preset("quick").change(changes)
    result = search_settings(*scenes, tmp_path, settings=start, axes=axes, n_folds=2)
    names = [("start", ""), ("preset", "paper"), ("preset", "best"), ("C", 1), ("C", 10)]
    assert shown(result) == names
    best = result.best.settings
    assert (best.preset, best.changes) == ("paper", {**changes, "classifier.C": 10})


def test_values_that_do_not_fit_what_was_chosen_are_passed_over(scenes, made_up, tmp_path, capsys):
    made_up.score = lambda settings: 0.9 - len(settings.blocks) / 10
    axes = {"blocks": ("layer1",), "blocks.1.power": (0.5,), "C": (1,)}
    result = search_settings(
        *scenes, tmp_path, settings=SETTINGS, axes=axes, n_folds=2, console=Console(quiet=False)
    )
    assert shown(result) == [("start", ""), ("blocks", "layer1"), ("C", 1)]
    assert "passed over: blocks.1.power=0.5: " in capsys.readouterr().err


def test_every_fold_is_evaluated_with_the_given_settings(scenes, tmp_path, monkeypatch):
    asked = []

    def evaluate(evaluation, images, labels, split, console):
        asked.append((evaluation, images.colour))
        return {"mean_class_accuracy": 0.5}

    monkeypatch.setattr(search, "evaluate_split", evaluate)
    axes = {"colour": ("lab",)}
    search_settings(*scenes, tmp_path, settings=SETTINGS, axes=axes, n_folds=2, seed=3, device="cpu")
    assert asked == [
        (
            Evaluation(
                SETTINGS.change({"colour": colour}),
                "search",
                seed=3,
                device="cpu",
                shared_stages=tmp_path / f"fold{number}.stages",
            ),
            colour,
        )
        for colour in ("gray", "lab")
        for number in (1, 2)
    ]


def test_trials_are_kept_and_other_work_is_not_mistaken_for_them(scenes, made_up, tmp_path):
    images, labels = scenes
    options = {"settings": SETTINGS, "n_folds": 2, "axes": {"eta": (0.0, 0.1)}}
    first = search_settings(images, labels, tmp_path, **options)
    count = len(made_up.asked)
    files = sorted(tmp_path.glob("candidate.*.json"))
    assert 2 * len(files) == count == 6
    kept = json.loads(files[0].read_text())
    assert len(kept["scores"]) == 2
    assert kept["seed"] == 0
    assert kept["changes"]["layers.bank.n_filters"] == TINY["layers.bank.n_filters"]
    assert search_settings(images, labels, tmp_path, **options) == first
    assert len(made_up.asked) == count
    files[0].unlink()
    search_settings(images, labels, tmp_path, **options)
    assert len(made_up.asked) == count + 2
    search_settings(images, labels, tmp_path, **options, seed=1)
    assert len(made_up.asked) == 2 * count + 2
    search_settings(images, labels[::-1], tmp_path, **options)
    assert len(made_up.asked) == 3 * count + 2


def test_the_best_settings_are_written(scenes, made_up, tmp_path):
    made_up.score = lambda settings: 0.5 + weights(settings)["eta"]
    search_settings(*scenes, tmp_path, settings=SETTINGS, axes={"eta": (0.1, 0.2)}, n_folds=2)
    best = json.loads((tmp_path / "best.json").read_text())
    assert (best["preset"], best["changes"]) == ("quick", {**TINY, "layers.bank.eta": 0.2})
    assert (best["score"], best["scores"]) == (pytest.approx(70), [pytest.approx(70)] * 2)
    assert best["score_of_start"] == pytest.approx(50.5)
    assert best["settings"] == preset("quick").change(best["changes"]).to_json()


def test_a_search_on_scenes_scores_as_training_without_the_fold_does(scenes, tmp_path):
    images, labels = scenes
    reported = []
    result = search_settings(
        images,
        labels,
        tmp_path,
        settings=SETTINGS,
        axes={"colour": ("lab",)},
        n_folds=2,
        device="cpu",
        report=lambda trial, best: reported.append((trial, best)),
    )
    assert [trial for trial, _ in reported] == list(result.trials)
    assert [trial for trial, best in reported if best][-1] == result.best
    for trial in result.trials:
        pixels = trial.settings.image_list(images.sources)
        for fold, score in zip(fold_splits(labels, 2, seed=0), trial.scores, strict=True):
            model = SceneClassifier("quick", changes=trial.settings.changes, device="cpu", random_state=0)
            model.fit(pixels.subset(fold.train), [labels[index] for index in fold.train])
            predicted = model.predict(pixels.subset(fold.test))
            true = np.array([labels[index] for index in fold.test])
            each = [np.mean(predicted[true == name] == name) for name in np.unique(true)]
            assert score == pytest.approx(100 * np.mean(each))


def test_trials_share_stages_and_only_those_of_the_best_are_kept(scenes, tmp_path, monkeypatch):
    images, labels = scenes
    computed, left = [], []
    fit = SceneClassifier.fit

    def watched(self, *args, **options):
        report = {"report": lambda name, found: found or computed.append(name)}
        return fit(self, *args, **{**options, **report})

    monkeypatch.setattr(SceneClassifier, "fit", watched)
    monkeypatch.setattr(search, "score_of", lambda cell: -len(computed))  # the first is the best
    mine = tmp_path / "fold1.stages" / "classifier.safetensors"  # not a name of a stage
    mine.parent.mkdir()
    mine.write_text("mine")

    def report(trial, best):
        files = [path for path in tmp_path.glob("fold*.stages/*") if path != mine]
        names = {path.name.removesuffix(".safetensors") for path in files}
        left.append({name.rpartition(".")[0] for name in names})
        assert len(names) == 2 * len(left[0])  # in each fold one file per stage

    search_settings(
        images,
        labels,
        tmp_path,
        settings=SETTINGS,
        axes={"eta": (0.1,), "pyramid": ("1x1",), "blocks": ("layer2",), "C": (1, 10)},
        n_folds=2,
        device="cpu",
        report=report,
    )
    assert computed.count("layer1.bank") == 4  # two folds, and again for eta
    assert computed.count("layer1.words") == 4
    assert computed.count("layer1.vectors1") == 6  # again for eta and the pyramid
    assert computed.count("classifier") == 12
    assert len(left) == 6
    assert left == [left[0]] * 6
    assert "layer2.vectors1" in left[0]
    assert list(tmp_path.glob("fold*.stages/*")) == [mine]  # what somebody else put there stays
