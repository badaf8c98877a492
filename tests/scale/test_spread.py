"""Training on workers: the same model, the same messages, and only what is needed travels."""

import pickle

import numpy as np
import pytest
import torch

from ddsfl.descriptors.centrist import CENTRIST
from ddsfl.patches import batches
from ddsfl.scale.spread import Spreading
from tests.support.engines import Far, only_workers_decode, use_small_parts
from tests.support.models import FUSED, LABELS, MANY, model_of
from tests.support.models import IMAGES as SQUARE
from tests.support.tiny import TINY

#: Of different sizes, which are padded to each other in batches.
IMAGES = [image[: 64 - 3 * (at % 4), : 64 - 5 * (at % 3)] for at, image in enumerate(SQUARE)]
SEVERAL = [(label,) if at % 3 else (label, "old") for at, label in enumerate(LABELS)]
#: Two layers with neighbours, a layer that is mirrored; colour.
DEEP = {**TINY, "colour": "lab", "layers.bank.xi": 0.5, "blocks.mirrored": True}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    use_small_parts(monkeypatch)


@pytest.fixture
def decoding(monkeypatch):
    return only_workers_decode(monkeypatch)


def learned(model):
    """Everything that a model has learned, by name."""
    parts = {**model.sources_, "svm": model.classifier_, "novelty": model.novelty_}
    parts |= {f"coding {at}": coding for at, coding in enumerate(model.codings_) if coding is not None}
    arrays = {f"{part}.{name}": a for part, of in parts.items() for name, a in of.state().items()}
    arrays |= {f"validation.{name}": array for name, array in model.validation_.state().items()}
    return arrays | {"weights": np.array(model.weights_)}


@pytest.mark.parametrize(
    ("changes", "labels"),
    [(DEEP, SEVERAL), ({**FUSED, "blocks": MANY[:4]}, LABELS)],
    ids=["two layers, colour, mirrored, several labels", "SIFT and Fisher vectors"],
)
def test_the_model_is_that_of_one_process_to_the_last_bit(changes, labels, decoding):
    here = learned(model_of(changes).fit(IMAGES, labels))
    decoding.append(engine := Far())
    there = model_of(changes).fit(IMAGES, labels, spread=Spreading(engine))
    assert there.training_["n_images"] == 12
    there = learned(there)
    assert here.keys() == there.keys()
    for name, expected in here.items():
        np.testing.assert_array_equal(there[name], expected, err_msg=name)
    assert engine.n_runs >= 5  # reading, drawing, words, vectors, novelty
    assert max(map(len, engine.sent)) < 5 * 15_000  # 5 images of at most 12,288 bytes, not 12
    assert not any(IMAGES[0].tobytes() in made for made in engine.made)  # workers get parts of them only


@pytest.mark.cuda
def test_workers_with_a_gpu_give_the_model_of_one_process_with_a_gpu(monkeypatch):
    monkeypatch.setitem(batches.READ_AHEAD, "cuda", 5)
    changes = {**FUSED, "layers.bank.xi": 0.5}
    here = learned(model_of(changes, device="cuda").fit(IMAGES, LABELS))
    there = learned(model_of(changes, device="cuda").fit(IMAGES, LABELS, spread=Spreading(Far())))
    for name in ("stack.layer1.mean", "stack.layer1.axes", "novelty"):
        for part in (part for part in here if part.startswith(name)):
            np.testing.assert_allclose(there[part], here[part], rtol=1e-2, atol=1e-3, err_msg=part)
    assert here.keys() == there.keys()


def test_sums_differ_by_their_rounding_only(decoding):
    changes = {**FUSED, "layers": [], "blocks": MANY[4:]}
    here = learned(model_of(changes).fit(IMAGES, LABELS))
    decoding.append(engine := Far())
    there = learned(model_of(changes).fit(IMAGES, LABELS, spread=Spreading(engine)))
    for name, expected in here.items():
        np.testing.assert_allclose(there[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_what_depends_on_the_order_of_parts_asks_for_it():
    asked = {}

    class Asked(Spreading):
        def over(self, images, work, size, progress=None, *, ordered=False):
            inner = work.args[0] if work.func.__name__ == "_in_batches" else work
            asked[inner.func.__name__] = ordered
            return super().over(images, work, size, progress, ordered=ordered)

    model_of({**FUSED, "blocks": [MANY[0], MANY[4]]}).fit(IMAGES, LABELS, spread=Asked(Far()))
    assert {name for name, ordered in asked.items() if ordered} == {"_raw_inputs", "_moments"}
    assert asked.keys() >= {"_read_part", "_inputs", "_draw", "_ranges", "encode_part", "_statistics"}


def mean_levels(pixels):
    return pixels.mean(dim=(2, 3))


def test_networks_stay_in_this_process():
    net = {"name": "net", "source": "net", "coding": None, "weight": 0.5}
    sources = {**FUSED["sources"], "net": {"method": "callable", "function": mean_levels, "input_size": 8}}
    changes = {**FUSED, "layers": [], "sources": sources, "blocks": [MANY[2], net]}
    here = model_of(changes).fit(IMAGES, LABELS).decision_function(IMAGES)
    there = model_of(changes).fit(IMAGES, LABELS, spread=Spreading(Far())).decision_function(IMAGES)
    np.testing.assert_array_equal(there, here)


def test_parts_that_do_not_fit_to_batches_change_rounding_only():
    class Odd(Spreading):
        def over(self, images, work, size, progress=None, *, ordered=False):
            return super().over(images, work, size if size == 4 else 3, progress, ordered=ordered)

    changes = {**FUSED, "layers": [], "blocks": MANY[2:]}
    here = learned(model_of(changes).fit(IMAGES, LABELS))
    there = learned(model_of(changes).fit(IMAGES, LABELS, spread=Odd(Far())))
    for name, expected in here.items():
        np.testing.assert_allclose(there[name], expected, rtol=1e-3, atol=1e-4, err_msg=name)


def test_stored_vectors_are_not_encoded_again(tmp_path):
    changes = {"layers": [], "blocks": MANY[2:4]}
    reused = {}
    here = model_of({**FUSED, **changes}).fit(IMAGES, LABELS, checkpoints=tmp_path)
    for name in ("edges.vectors1", "corners.vectors3"):
        [file] = tmp_path.glob(f"{name}.*")
        file.unlink()
    [file] = tmp_path.glob("edges.vectors2.*")
    file.write_bytes(file.read_bytes()[:-1] + b"?")  # damaged: found when it is read
    engine, steps = Far(), []
    with pytest.warns(UserWarning, match="is damaged"):
        there = model_of({**FUSED, **changes}).fit(
            IMAGES, LABELS, checkpoints=tmp_path, report=reused.__setitem__, spread=Spreading(engine),
            progress=lambda *step: steps.append(step),
        )  # fmt: skip
    expected = ["corners.vectors3", "edges.vectors1", "edges.vectors2"]
    assert sorted(name for name, found in reused.items() if not found) == expected
    assert (4, 8) in steps  # of the 8 images in parts 1 and 3
    assert engine.n_runs == 2  # reading, and encoding what is missing
    np.testing.assert_array_equal(here.decision_function(IMAGES), there.decision_function(IMAGES))
    assert there.run_.seconds.keys() == here.run_.seconds.keys()


def test_sources_compute_where_this_process_does(monkeypatch):
    """A worker may have a GPU that this process has not; "auto" must not mean it."""
    engine, devices = Far(), set()
    model = model_of({**FUSED, "layers": [], "blocks": MANY[2:3]}, device="auto")
    load = pickle.loads

    def spied(content):
        value = load(content)
        for part in (*getattr(value, "args", ()), *getattr(value, "keywords", {}).values()):
            for source in (part, *getattr(part, "sources", {}).values()):
                if hasattr(source, "describe"):
                    devices.add(source.device)
        return value

    monkeypatch.setattr("ddsfl.scale.spread.pickle.loads", spied)
    model.fit(IMAGES, LABELS, spread=Spreading(engine))
    assert devices == {torch.device("cuda" if torch.cuda.is_available() else "cpu")}
    assert model.sources_["sift"].device == "auto"


def test_images_that_are_no_list_are_passed_over_here():
    images = [torch.zeros(1, 40, 40, dtype=torch.uint8), torch.ones(1, 40, 40, dtype=torch.uint8)] * 3
    assert CENTRIST(n_components=3, device="cpu").fit(images).mean_.shape == (254,)
