"""Grids of cells on tiny sets: what is computed, shared, kept and computed again."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.classify.fusion import WeightChoice
from ddsfl.datasets.voc import VOC_CLASSES, VocTruth
from ddsfl.experiments import evaluate as evaluation
from ddsfl.experiments import grid, methods
from ddsfl.experiments.evaluate import cell_path
from ddsfl.experiments.grid import Grid, run_grid
from ddsfl.images.scenes import make_scenes
from ddsfl.model import vectors as training_vectors
from ddsfl.model.classifier import SceneClassifier
from ddsfl.scale.engine import Engine, Outcome
from ddsfl.scale.processes import Processes
from tests.oracles.voc import voc_evaluate, write_voc
from tests.support.networks import tiny_network


@pytest.fixture
def stages(monkeypatch):
    """Counts the stages that were computed rather than reused."""
    computed = Counter()
    fit = SceneClassifier.fit

    def counted(self, *args, **options):
        def report(name, found):
            computed[name] += not found

        return fit(self, *args, **{**options, "report": report})

    monkeypatch.setattr(SceneClassifier, "fit", counted)
    return computed


def test_cells_are_computed_once_and_only_if_missing(scenes, stages):
    lines = []
    wanted = scenes("sift", "ddsfl-1layer", n_splits=2, seed=4)
    run_grid(wanted, report=lines.append)
    assert [line.rpartition(" (")[0].rpartition(" ")[0] for line in lines] == [
        f"sports8 random {split}: {name}" for split in (1, 2) for name in ("sift", "ddsfl-1layer")
    ]
    files = sorted(path.name for path in wanted.folder.iterdir())
    assert files == sorted(f"{name}.random{split}.json" for name in wanted.methods for split in (1, 2))
    assert not list(wanted.scratch.iterdir())
    cell = json.loads((wanted.folder / "sift.random2.json").read_text())
    needed = "dataset method split accuracy mean_class_accuracy per_class_accuracy confusion settings seed"
    assert set(f"{needed} seconds device commit n_train n_test".split()) <= set(cell)
    assert (cell["dataset"], cell["method"], cell["split"]) == ("sports8", "sift", "random 2")
    assert (cell["n_train"], cell["n_test"], cell["seed"]) == (4, 4, 4)
    total = np.zeros((2, 2), int)
    for path in wanted.folder.iterdir():
        cell = json.loads(path.read_text())
        counts = np.zeros((2, 2), int)
        for true, predicted in zip([0, 0, 1, 1], cell["predicted"].split(), strict=True):
            counts[true, int(predicted)] += 1
        assert counts.tolist() == cell["confusion"]
        total += counts
    assert total.any(axis=0).all()  # each class was predicted for some image

    stages.clear()
    run_grid(wanted, report=lines.append)
    assert len(lines) == 4
    (wanted.folder / "sift.random2.json").unlink()
    run_grid(wanted, report=lines.append)
    assert len(lines) == 5
    assert stages["sift.words"] == 1
    assert not stages["layer1.bank"]


def test_other_settings_and_seeds_are_computed_again(scenes, stages, monkeypatch):
    run_grid(scenes("sift"))
    assert scenes("sift").missing("random 1") == []
    assert scenes("sift", seed=1).missing("random 1") == ["sift"]
    monkeypatch.setattr(methods, "LLC", {**methods.LLC, "n_words": 11})
    assert scenes("sift").missing("random 1") == ["sift"]


def test_methods_share_stages_and_test_vectors_and_score_as_if_run_alone(scenes, stages, monkeypatch):
    encoded = []
    block_vectors = SceneClassifier.block_vectors

    def watched(self, images, names, **options):
        encoded.extend(names)
        return block_vectors(self, images, names, **options)

    monkeypatch.setattr(SceneClassifier, "block_vectors", watched)
    together = scenes("sift", "ddsfl-2layers", "ddsfl-2layers+sift")
    run_grid(together)
    assert stages["layer1.bank"] == stages["layer2.bank"] == stages["sift.words"] == 1
    assert sorted(encoded) == ["layer1", "layer2", "sift"]
    alone = dataclasses.replace(scenes("ddsfl-2layers+sift"), cells=together.cells.with_name("alone"))
    run_grid(alone)
    one, other = (
        json.loads(cell_path(made.folder, "ddsfl-2layers+sift", "random 1").read_text())
        for made in (together, alone)
    )
    for key in ("predicted", "confusion", "C", "weights", "settings", "pixels"):
        assert one[key] == other[key]


def test_shared_vectors_are_scored_as_the_model_scores_the_images(scenes, monkeypatch):
    test_scores, weights = evaluation._test_scores, []

    def watched(asked, model, images, labels, split, console):
        weights.append(model.weights_)
        scores = test_scores(asked, model, images, labels, split, console)
        np.testing.assert_allclose(scores, model.decision_function(images.subset(split.test)), atol=1e-5)
        return scores

    monkeypatch.setattr(evaluation, "_test_scores", watched)
    monkeypatch.setattr(evaluation, "SCORED_AT_ONCE", 3)
    chosen = WeightChoice((1.0, 3.0), [])
    monkeypatch.setattr(training_vectors, "choose_weights", lambda *args, **options: chosen)
    run_grid(scenes("sift", "ddsfl-1layer+sift"))
    assert weights == [(1.0,), (1.0, 3.0)]


def test_vectors_are_dropped_after_their_last_use(scenes, monkeypatch):
    kept = []
    evaluate_split = grid.evaluate_split

    def watched(asked, images, labels, split):
        cell = evaluate_split(asked, images, labels, split)
        kept.append(len(asked.vectors))
        return cell

    monkeypatch.setattr(grid, "evaluate_split", watched)
    run_grid(scenes("sift", "ddsfl-1layer", "ddsfl-1layer+sift"))
    assert kept == [1, 2, 0]


def test_an_interrupted_grid_resumes_with_its_stages(scenes, stages, monkeypatch):
    wanted = scenes("sift")

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "_test_scores", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_grid(wanted)
    assert stages["sift.words"] == 1
    run_grid(wanted)
    assert stages["sift.words"] == 1
    assert not wanted.missing("random 1")


def test_a_split_that_fails_is_named_and_the_others_are_finished(scenes):
    class Failing(Engine):
        n_workers = 2

        def run(self, make, items, say=None):
            worker = make()
            yield Outcome(items[0], failure="no disk")
            yield Outcome(items[1], worker(items[1], say))

    wanted, lines = scenes("sift", n_splits=2), []
    with pytest.raises(ValueError, match=r"^1 of 2 splits failed, the others are finished: random 1.$"):
        run_grid(wanted, engine=Failing(), report=lines.append)
    assert lines[0] == "random 1: no disk"
    assert (wanted.missing("random 1"), wanted.missing("random 2")) == (["sift"], [])


def test_images_that_cannot_be_read_are_left_out(scenes):
    wanted = scenes("sift")
    _, (split,) = wanted.read()
    paths = wanted.read()[0].paths
    paths[split.test[0]].write_bytes(b"no image")
    run_grid(wanted)
    assert json.loads((wanted.folder / "sift.random1.json").read_text())["n_test"] == 3


def test_more_splits_than_prescribed_keep_the_first_ones(scenes):
    splits = [scenes("sift", n_splits=n).read()[1] for n in (1, 3)]
    assert len(splits[1]) == 3
    assert splits[0][0] == splits[1][0]


@pytest.mark.slow
def test_splits_run_in_their_own_processes(tmp_path):
    images, _ = make_scenes(n_per_class=1, random_state=0, size=64)
    for label in ("a", "b"):
        (tmp_path / "data" / label).mkdir(parents=True)
        for number in range(71):  # the protocol trains on 70
            shade = np.clip(images[4 * (label == "b")].astype(int) + number % 9, 0, 255).astype(np.uint8)
            Image.fromarray(shade).save(tmp_path / "data" / label / f"{number}.png")
    places = {name: tmp_path / name for name in ("data", "cells", "scratch")}
    networks = {"net": str(tiny_network(tmp_path / "net.onnx"))}
    wanted = Grid("sports8", methods=["net"], n_splits=2, networks=networks, device="cpu", **places)
    lines = []
    with Processes(2) as engine:
        run_grid(wanted, engine=engine, report=lines.append)
    assert sorted(line.partition(":")[0] for line in lines) == [f"sports8 random {n}" for n in (1, 2)]
    assert all(wanted.missing(f"random {number}") == [] for number in (1, 2))
    cells = [json.loads(path.read_text()) for path in sorted(wanted.folder.iterdir())]
    assert [cell["mean_class_accuracy"] for cell in cells] == [1.0] * 2
    assert cells[0]["settings"]["sources"] == {"net": {"method": "onnx", "path": "net.onnx"}}


SHOWN = (2, 7, 14)  # bird, cat, person


@pytest.fixture
def voc(tmp_path, tiny_methods):
    """A VOC folder with three of the twenty classes, difficult images, and a test list without labels."""
    images, _ = make_scenes(n_per_class=4, random_state=0, size=64)
    rng = np.random.default_rng(0)
    ids = [f"2008_{number:06}" for number in range(18)]
    truth = {key: [-1] * 20 for key in ids}
    for number, key in enumerate(ids):
        truth[key][SHOWN[number % 3]] = 1
        other = SHOWN[int(rng.integers(3))]
        truth[key][other] = max(truth[key][other], int(rng.choice([-1, 0, 1])))
    subsets = {"train": ids[:8], "val": ids[8:15], "trainval": ids[:15], "test": ids[15:]}
    write_voc(tmp_path / "VOC2012", truth, VOC_CLASSES, subsets)
    for key, image in zip(ids, images):
        Image.fromarray(image).convert("RGB").save(tmp_path / "VOC2012" / "JPEGImages" / f"{key}.jpg")
    places = {"data": tmp_path / "VOC2012", "cells": tmp_path / "cells", "scratch": tmp_path / "stages"}
    return Grid("voc2012", methods=["sift"], n_splits=1, device="cpu", **places)


def test_voc_cells_have_the_precision_of_the_development_kit(voc, monkeypatch, tmp_path):
    scored = []
    test_scores = evaluation._test_scores

    def watched(asked, model, *args):
        scored.append((model, test_scores(asked, model, *args)))
        return scored[-1][1]

    monkeypatch.setattr(evaluation, "_test_scores", watched)
    run_grid(voc)
    cell = json.loads((voc.folder / "sift.train-val.json").read_text())
    model, scores = scored[0]
    lists = voc.data / "ImageSets" / "Main"
    ids = (lists / "val.txt").read_text().split()
    classes = [VOC_CLASSES[column] for column in SHOWN]
    assert list(model.classes_) == list(classes)
    for column, name in enumerate(classes):
        given = tmp_path / "given.txt"
        given.write_text("".join(f"{key} {value:.12f}\n" for key, value in zip(ids, scores[:, column])))
        expected = voc_evaluate(lists / f"{name}_val.txt", given)
        assert cell["average_precision"][name] == pytest.approx(expected, abs=1e-9)
    assert cell["mean_average_precision"] == pytest.approx(np.mean(list(cell["average_precision"].values())))

    # Each SVM was fitted without the images that are difficult for its class.
    image_set, _ = voc.read()
    truth = VocTruth.read(voc.data, ("train", "val")).values[:8, SHOWN]
    assert (truth == 0).any()
    vectors = torch.from_numpy(model.transform(image_set.paths[:8])).double()
    augmented = torch.cat([vectors, torch.ones(8, 1)], dim=1)
    for column in range(3):
        weights = torch.tensor(
            [*model.classifier_.coef_[column], model.classifier_.intercept_[column]], dtype=torch.float64
        ).requires_grad_()
        signs = torch.from_numpy(truth[:, column].astype(float))
        slack = (1 - signs * (augmented @ weights)).clamp_min(0)[signs != 0]
        (0.5 * weights @ weights + model.classifier_.C_ * (slack**2).sum()).backward()
        # 0.001 by rounding; above 100 if a difficult image is included
        assert weights.grad.abs().max() < 1e-2 * float(weights.detach().abs().max())
    assert voc.missing("train / val") == []


def test_a_cell_says_which_images_were_difficult(voc):
    run_grid(voc)
    file = voc.data / "ImageSets" / "Main" / f"{VOC_CLASSES[2]}_val.txt"
    before = json.loads((voc.folder / "sift.train-val.json").read_text())
    file.write_text(file.read_text().replace("-1", " 0", 1))
    (voc.folder / "sift.train-val.json").unlink()
    run_grid(voc)
    after = json.loads((voc.folder / "sift.train-val.json").read_text())
    assert before["truth"] != after["truth"]


def test_voc_test_images_get_files_for_the_server_and_no_score(voc, tmp_path):
    networks = {"net": str(tiny_network(tmp_path / "net.onnx"))}
    wanted = dataclasses.replace(voc, dataset="voc2012-test", methods=["sift", "net"], networks=networks)
    lines = []
    run_grid(wanted, report=lines.append)
    assert "files for the server written" in lines[0]
    cell = json.loads((wanted.folder / "sift.trainval-test.json").read_text())
    assert cell["mean_average_precision"] is None
    place = wanted.folder / "sift.trainval-test" / "results" / "VOC2012" / "Main"
    assert sorted(path.name for path in place.iterdir()) == cell["result_files"]
    assert cell["result_files"] == [f"comp1_cls_test_{VOC_CLASSES[column]}.txt" for column in SHOWN]
    ids = (voc.data / "ImageSets" / "Main" / "test.txt").read_text().split()
    for path in place.iterdir():
        lines = [line.split(" ") for line in path.read_text().splitlines()]
        assert [key for key, _ in lines] == ids
        assert all(np.isfinite(float(value)) for _, value in lines)
    cell = json.loads((wanted.folder / "net.trainval-test.json").read_text())
    assert cell["result_files"][0] == "comp2_cls_test_bird.txt"  # the network was trained on other images
