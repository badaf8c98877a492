"""Training on workers: the same model, the same messages, and only what is needed travels."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.descriptors.centrist import CENTRIST
from ddsfl.images.image_list import ImageList, UnreadableImage
from ddsfl.patches import batches
from ddsfl.patches.batches import over
from ddsfl.scale.engine import Here
from ddsfl.scale.spread import Spreading, packed
from tests.support.engines import Far
from tests.support.models import FUSED, LABELS, MANY, edges, model_of
from tests.support.models import IMAGES as SQUARE
from tests.support.pictures import bad_files, picture
from tests.support.tiny import TINY

CPU = torch.device("cpu")
#: Of different sizes, which are padded to each other in batches.
IMAGES = [image[: 64 - 3 * (at % 4), : 64 - 5 * (at % 3)] for at, image in enumerate(SQUARE)]
SEVERAL = [(label,) if at % 3 else (label, "old") for at, label in enumerate(LABELS)]
#: Two layers with neighbours, a layer that is mirrored; colour.
DEEP = {**TINY, "colour": "lab", "layers.bank.xi": 0.5, "blocks.mirrored": True}
MANY_BLOCKS = {**FUSED, "blocks": [*MANY[:4], {**MANY[4], "weight": 0.5}]}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Batches are formed within windows of 5 images, vectors stored for 4 at a time."""
    monkeypatch.setitem(batches.READ_AHEAD, "cpu", 5)
    monkeypatch.setattr("ddsfl.images.image_list.READ_AT_ONCE", 3)
    for module in ("fit", "keys"):
        monkeypatch.setattr(f"ddsfl.model.{module}.ENCODED_AT_ONCE", 4)


@pytest.fixture
def decoding(monkeypatch):
    """Make decoding outside of the workers of the engines in this list an error."""
    from ddsfl.images import store

    engines, decode = [], store.decode

    def checked(source, **options):
        assert all(engine.working for engine in engines), f"{source} is decoded by the driver"
        return decode(source, **options)

    monkeypatch.setattr(store, "decode", checked)
    return engines


def numbered(batched):
    yield from batched


def wrong(batched):
    first = min(number for numbers, _ in batched for number in numbers)
    if first:
        raise ValueError(f"wrong from {first} on.")
    yield first


def learned(model):
    """Everything that a model has learned, by name."""
    parts = {**model.sources_, "svm": model.classifier_, "novelty": model.novelty_}
    parts |= {f"coding {at}": coding for at, coding in enumerate(model.codings_) if coding is not None}
    arrays = {f"{part}.{name}": a for part, of in parts.items() for name, a in of.state().items()}
    validated = model.validation_.state()
    return (
        arrays | {"weights": np.array(model.weights_)} | {f"v.{name}": validated[name] for name in validated}
    )


@pytest.mark.parametrize(
    ("changes", "labels"),
    [(DEEP, SEVERAL), ({**MANY_BLOCKS, "blocks": MANY[:4]}, LABELS)],
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


def test_parts_have_no_workers_of_their_own():
    images = ImageList(IMAGES).with_spread(Spreading(Here()))
    assert images.read_all(glance=True) == []  # in this process, with the very same store
    assert pickle.loads(pickle.dumps(images)).spread is None
    assert images.subset([1]).spread is images.spread


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


@pytest.fixture
def paths(tmp_path):
    made = [tmp_path / f"{at}.png" for at in range(7)]
    for at, path in enumerate(made):
        Image.fromarray(picture(seed=at)).save(path)
    Image.fromarray(picture(seed=2)).save(made[5])  # a copy
    Image.fromarray(np.full((40, 40), 9, np.uint8)).save(made[6])
    return made


def test_reading_on_workers_finds_the_same(tmp_path, paths, decoding):
    bad = [tmp_path / name for name in bad_files(tmp_path)]
    sources = [paths[0], *bad[:2], *paths[1:4], *bad[2:], *paths[4:]]
    here, steps = ImageList(sources, cache_bytes=0), []
    expected = here.read_all(glance=True)
    decoding.append(engine := Far())
    there = ImageList(sources, cache_bytes=0).with_spread(Spreading(engine))
    found = there.read_all(lambda *step: steps.append(step), glance=True)
    assert list(map(str, found)) == list(map(str, expected))
    assert [(p.index, p.source) for p in found] == [(p.index, p.source) for p in expected]
    np.testing.assert_array_equal(there.glances.thumbnails, here.glances.thumbnails)
    np.testing.assert_array_equal(there.glances.contrasts, here.glances.contrasts)
    assert (there.copies(), there.flat(), there.seen()) == (here.copies(), here.flat(), here.seen())
    assert there.digests() == here.digests()
    assert [total for _, total in steps] == [13] * 5
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1] == (13, 13)
    good = there.subset(there.seen())
    assert good.fingerprint() == here.subset(here.seen()).fingerprint()
    assert engine.n_runs == 1  # all digests were known
    assert there.with_spread(Spreading(engine)).read_all() == found  # without glances
    with pytest.raises(ValueError, match="not looked at"):
        there.with_spread(None).seen()


def test_an_image_that_cannot_be_read_is_named_as_in_one_process(paths):
    sources = [*paths, "missing.png", "absent.png"]
    for images in (ImageList(sources), ImageList(sources).with_spread(Spreading(Far()))):
        with pytest.raises(UnreadableImage, match=r"missing\.png cannot be read: no such file") as caught:
            images.subset(range(1, 8)).fingerprint()
        assert caught.value.number == 7
    given = ImageList([*IMAGES[:6], b"no image", *IMAGES[6:]])
    with pytest.raises(UnreadableImage, match=r"image 6 \(given as bytes\) cannot be read") as caught:
        edges().fit(given, [*LABELS, LABELS[0]], spread=Spreading(Far()))
    given = given.subset(range(1, 12)).with_spread(Spreading(Far()))
    with pytest.raises(UnreadableImage, match="image 6") as caught:
        list(over(given, numbered, CPU))
    assert (caught.value.source, caught.value.number) == (b"no image", 6)


def test_an_image_that_changes_meanwhile_ends_the_training(paths):
    images = ImageList(paths, cache_bytes=0).with_spread(Spreading(Far()))
    before = images.fingerprint()
    assert sorted(number for numbers, _ in over(images, numbered, CPU) for number in numbers) == list(
        range(7)
    )
    Image.fromarray(picture(seed=99)).save(paths[4])
    with pytest.raises(UnreadableImage, match=r"4\.png cannot be read: it changed while it was in use"):
        list(over(images, numbered, CPU))
    assert [problem.reason for problem in images.read_all()] == ["it changed while it was in use"]
    assert images.fingerprint() == before


def test_a_change_that_only_two_workers_together_can_notice_is_noticed(paths):
    """Both read an image for the first time, before and after it changed."""
    images = ImageList([paths[0], paths[1]])
    images.note_digests(0, ImageList(paths[:2]).with_spread(Spreading(Far())).digests())
    first = ImageList(paths[:2])
    first.read_all()
    images.note_digests(0, [None, first.digest(1)])
    with pytest.raises(UnreadableImage, match=r"1\.png cannot be read: it changed") as caught:
        images.note_digests(1, [first.digest(0)])
    assert caught.value.number == 1


def test_a_part_that_no_worker_finishes_is_an_error_that_names_it():
    images = ImageList(IMAGES)
    for fails, named in (({1}, "images 6 to 10"), ({2}, "images 11 to 12")):
        message = f"no worker finished {named}: a process was killed by SIGKILL"
        with pytest.raises(ValueError, match=message):
            list(over(images.with_spread(Spreading(Far(fails))), numbered, CPU))


def test_a_mistake_is_reported_in_the_words_of_one_process():
    def small(spread):
        with pytest.raises(ValueError) as caught:
            model_of({**TINY, "layers.field": 16}).fit([np.eye(20)[:, :20]] * 4, [0, 0, 1, 1], spread=spread)
        return str(caught.value)

    assert small(None) == small(Spreading(Far()))

    images = ImageList(IMAGES[:6]).with_spread(Spreading(Far()))
    with pytest.raises(ValueError, match=r"^wrong from 5 on\.$"):
        list(over(images, wrong, CPU))


def test_results_come_as_parts_end_or_in_order():
    images = ImageList([picture()] * 23).with_spread(Spreading(Far()))
    starts = [
        [numbers[0] // 5 for numbers, _ in over(images, numbered, CPU, ordered=o)] for o in (False, True)
    ]
    assert starts[1] == sorted(starts[1])
    assert starts[0] != sorted(starts[0])
    assert set(starts[0]) == set(starts[1]) == {0, 1, 2, 3, 4}
    assert list(over(images.subset([]), numbered, CPU)) == []


def test_results_are_not_kept():
    """An engine that is asked for one outcome at a time: nothing is waiting in between."""
    engine = Far()
    images = ImageList([picture()] * 23).with_spread(Spreading(engine))
    for taken, _ in enumerate(over(images, numbered, CPU), start=1):
        assert len(engine.returned) <= taken


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


def test_tensors_travel_as_they_are_without_their_storage():
    whole = torch.arange(10_000.0).view(100, 100)
    values = [whole[3], whole.T[:2], torch.tensor(7), torch.ones(3, dtype=torch.bool), whole[:0]]
    sent = packed({"tensors": values})
    assert len(sent) < 5_000
    for value, back in zip(values, pickle.loads(sent)["tensors"]):
        assert torch.equal(value, back)
        assert value.dtype == back.dtype
        back.zero_()  # can be written


def test_images_that_are_no_list_are_passed_over_here():
    images = [torch.zeros(1, 40, 40, dtype=torch.uint8), torch.ones(1, 40, 40, dtype=torch.uint8)] * 3
    assert CENTRIST(n_components=3, device="cpu").fit(images).mean_.shape == (254,)
