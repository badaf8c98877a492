"""The sequential search on tiny scenes, and with made-up scores."""

import json

import numpy as np
import pytest

from ddsfl.experiments import search
from ddsfl.experiments.evaluate import Evaluation
from ddsfl.experiments.search import GRIDS, Candidate, search_settings, training_folds
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.presets import preset
from tests.support.tiny import TINY, tiny_scenes

SETTINGS = preset("quick").change(TINY)
SMALL = {"lambda1": (0.0, 0.01), "gamma": (0.0, 0.3)}


@pytest.fixture
def scenes():
    images, labels = tiny_scenes(n_per_class=4, classes=2)
    return SETTINGS.image_list(images), labels


@pytest.fixture
def made_up(monkeypatch):
    """Replace training by a score of the settings; returns what was evaluated."""
    asked = []

    def evaluate(evaluation, images, labels, split, console):
        weights = {name: evaluation.settings.changes[f"layers.bank.{name}"] for name in GRIDS}
        asked.append((weights, split.name))
        # lambda1 is best at 0.01; gamma is best at 0.1, or at 1 if lambda1 is not 0.01.
        score = 0.5 - abs(weights["lambda1"] - 0.01)
        best = 0.1 if weights["lambda1"] == 0.01 else 1.0
        return {"mean_class_accuracy": score - 0.1 * abs(weights["gamma"] - best) - 0.2 * weights["eta"]}

    monkeypatch.setattr(search, "evaluate_split", evaluate)
    return asked


def test_each_weight_is_chosen_with_those_before_it_fixed_and_those_after_it_0(scenes, made_up, tmp_path):
    result = search_settings(*scenes, tmp_path, settings=SETTINGS, n_folds=2)
    assert result.chosen == {
        "layers.bank.xi": 0.0,  # all equal: the first
        "layers.bank.lambda1": 0.01,
        "layers.bank.gamma": 0.1,
        "layers.bank.lambda2": 0.0,
        "layers.bank.eta": 0.0,
    }
    assert list(GRIDS) == ["xi", "lambda1", "gamma", "lambda2", "eta"]
    tried = [weights for weights, fold in made_up if fold == "fold 1"]
    expected = []
    fixed = dict.fromkeys(GRIDS, 0.0)
    for name, values in GRIDS.items():
        expected += [{**fixed, name: value} for value in values]
        fixed[name] = result.chosen[f"layers.bank.{name}"]
    unique = [one for place, one in enumerate(expected) if one not in expected[:place]]
    assert tried == unique  # equal settings are not tried twice
    assert [(one.parameter, one.value) for one in result.candidates] == [
        (name, value) for name, values in GRIDS.items() for value in values
    ]
    assert result.candidates[3].mean == pytest.approx(100 * (0.5 - 0.01 - 0.1))


def test_every_fold_is_evaluated_with_the_given_settings(scenes, tmp_path, monkeypatch):
    asked = []

    def evaluate(evaluation, images, labels, split, console):
        asked.append(evaluation)
        return {"mean_class_accuracy": 0.5}

    monkeypatch.setattr(search, "evaluate_split", evaluate)
    search_settings(
        *scenes, tmp_path, settings=SETTINGS, grids={"eta": (0.1,)}, n_folds=2, seed=3, device="cpu"
    )
    settings = SETTINGS.change({"layers.bank.eta": 0.1})
    assert asked == [
        Evaluation(settings, "search", seed=3, device="cpu", shared_stages=tmp_path / f"fold{number}.stages")
        for number in (1, 2)
    ]


def test_the_score_of_a_candidate_is_the_mean_of_its_folds():
    assert Candidate("eta", 0.1, {}, (50.0, 70.0, 45.0)).mean == 55


def test_candidates_are_kept_and_other_work_is_not_mistaken_for_them(scenes, made_up, tmp_path):
    images, labels = scenes
    options = {"settings": SETTINGS, "n_folds": 2}
    first = search_settings(images, labels, tmp_path, **options)
    count = len(made_up)
    files = sorted(tmp_path.glob("candidate.*.json"))
    assert 2 * len(files) == count
    kept = json.loads(files[0].read_text())
    assert len(kept["scores"]) == 2
    assert kept["seed"] == 0
    assert kept["changes"]["layers.bank.n_filters"] == TINY["layers.bank.n_filters"]
    assert search_settings(images, labels, tmp_path, **options) == first
    assert len(made_up) == count
    files[0].unlink()
    search_settings(images, labels, tmp_path, **options)
    assert len(made_up) == count + 2
    search_settings(images, labels, tmp_path, **options, seed=1)
    assert len(made_up) > 2 * count
    count = len(made_up)
    search_settings(images, labels[::-1], tmp_path, **options)
    assert len(made_up) > count + 2


def test_folds_test_every_training_image_once_and_share_the_classes(scenes):
    labels = [*("abcab" * 6), "a"]
    folds = training_folds(labels, 3, seed=0)
    assert sorted(index for fold in folds for index in fold.test) == list(range(31))
    for fold in folds:
        assert sorted([*fold.train, *fold.test]) == list(range(31))
        counts = [sum(labels[index] == name for index in fold.test) for name in "abc"]
        assert counts[1:] == [4, 2]
        assert counts[0] in (4, 5)
    assert training_folds(labels, 3, seed=0) == folds
    others = training_folds(labels, 3, seed=1)
    assert [fold.test for fold in others] != [fold.test for fold in folds]
    assert [fold.name for fold in folds] == ["fold 1", "fold 2", "fold 3"]


@pytest.mark.parametrize("n_folds", [1, 4])
def test_folds_need_images_of_every_class(n_folds):
    with pytest.raises(ValueError, match=f"n_folds={n_folds}; expected at least 2 and at most 3"):
        training_folds(["a"] * 5 + ["b"] * 3, n_folds, seed=0)


def test_a_search_on_scenes_scores_as_training_without_the_fold_does(scenes, tmp_path):
    images, labels = scenes
    reported = []
    result = search_settings(
        images,
        labels,
        tmp_path,
        settings=SETTINGS,
        grids=SMALL,
        n_folds=2,
        device="cpu",
        report=reported.append,
    )
    assert reported == list(result.candidates)
    assert len(result.candidates) == 4
    candidate = result.candidates[-1]
    for fold, score in zip(training_folds(labels, 2, seed=0), candidate.scores, strict=True):
        model = SceneClassifier("quick", changes=candidate.changes, device="cpu", random_state=0)
        model.fit(images.subset(fold.train), [labels[index] for index in fold.train])
        predicted = model.predict(images.subset(fold.test))
        true = np.array([labels[index] for index in fold.test])
        each = [np.mean(predicted[true == name] == name) for name in np.unique(true)]
        assert score == pytest.approx(100 * np.mean(each))
    best = max((one for one in result.candidates if one.parameter == "gamma"), key=lambda one: one.mean)
    assert result.chosen["layers.bank.gamma"] == best.value


def test_stages_of_other_blocks_are_shared_and_those_of_layers_dropped(scenes, tmp_path, monkeypatch):
    images, labels = scenes
    block = {"coding": {"method": "llc", "n_words": 8, "n_neighbors": 3}, "source": "sift"}
    both = [{"name": "layer1", "coding": block["coding"]}, {"name": "sift", **block}]
    changes = {**{key: value for key, value in TINY.items() if "coding" not in key}, "blocks": both}
    computed = []
    fit = SceneClassifier.fit

    def watched(self, *args, **options):
        report = {"report": lambda name, found: found or computed.append(name)}
        return fit(self, *args, **{**options, **report})

    monkeypatch.setattr(SceneClassifier, "fit", watched)
    options = {
        "settings": preset("quick").change(changes),
        "grids": {"lambda1": (0.0, 0.01)},
        "n_folds": 2,
        "device": "cpu",
    }
    mine = tmp_path / "fold1.stages" / "classifier.safetensors"  # not a name of a stage
    mine.parent.mkdir()
    mine.write_text("mine")
    search_settings(images, labels, tmp_path, **options)
    assert computed.count("sift.words") == 2  # one per fold
    assert computed.count("layer1.bank") == 4
    left = {path.name.partition(".")[0] for path in tmp_path.glob("fold*.stages/*")}
    assert left == {"sift", "classifier"}
    assert mine.read_text() == "mine"
    assert [path.name for path in tmp_path.glob("fold*.stages/classifier.*")] == ["classifier.safetensors"]
