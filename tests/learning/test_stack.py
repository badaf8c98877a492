"""FilterStack learns every layer, is reproducible, and reports invalid input."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from ddsfl.compute.stages import Stages
from ddsfl.learning.forward import ForwardPass
from ddsfl.learning.inputs import InputDrawer
from ddsfl.learning.layer import Layer
from ddsfl.learning.pictures import average_of_strongest, patterns_of_filters
from ddsfl.learning.stack import FilterStack
from ddsfl.patches.geometry import Batch
from ddsfl.patches.normalise import contrast_normalise
from tests.support.tiny import tiny_scenes

BANK = {"n_filters": 8, "max_iter": 5, "rounds": 1, "round_iter": 4}
LAYERS = (
    Layer(step=4, n_scales=2, n_components=20, patches_per_image=30, bank=BANK),
    Layer(field=32, step=8, n_scales=2, n_components=15, grid=4, pool=3, patches_per_image=30, bank=BANK),
    Layer(field=64, step=8, n_scales=1, n_components=10, grid=8, pool=3, patches_per_image=30, bank=BANK),
)
PICTURES, LABELS = tiny_scenes()
IMAGES = [torch.from_numpy(picture)[None] for picture in PICTURES]
# One image of another shape, so batches are padded.
IMAGES[1] = torch.cat([IMAGES[1], IMAGES[2][:, :9]], dim=1)


def stack(layers=LAYERS, **options):
    return FilterStack(layers, **{"device": "cpu", "random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted():
    return stack().fit(IMAGES, LABELS)


def test_every_layer_learns_filters_sharing_and_pictures(fitted):
    assert [learned.filters.shape for learned in fitted.learned_] == [(8, 20), (8, 15), (8, 10)]
    assert [sharing.shape for sharing in fitted.sharing_] == [(3, 8)] * 3
    assert [pictures.shape for pictures in fitted.pixel_filters_] == [
        (8, 1, 16, 16),
        (8, 1, 32, 32),
        (8, 1, 64, 64),
    ]
    assert [list(numbers) for numbers in fitted.n_exemplars_] == [[12, 12, 12]] * 3
    for values, names in zip(fitted.objective_, fitted.objective_terms_):
        assert values.shape[1] == len(names)
        first_leg = values[values[:, names.index("leg")] == 0][:, names.index("objective")]
        assert first_leg[-1] < first_leg[0]


def test_the_same_seed_learns_the_same(fitted):
    again = stack().fit(IMAGES, LABELS)
    for one, other in zip(fitted.learned_, again.learned_):
        assert torch.equal(one.filters, other.filters)
    other = stack(random_state=1).fit(IMAGES, LABELS)
    assert not torch.equal(other.learned_[0].filters, fitted.learned_[0].filters)


def test_clone_and_parameters(fitted):
    assert clone(fitted).get_params() == fitted.get_params()


def test_svm_exemplars_no_exemplars_and_denoising():
    changes = [
        {"exemplars": {"method": "svm", "n_negatives": 40}},
        {"exemplars": None},
        {"bank": {**BANK, "xi": 0.1}},
    ]
    for change in changes:
        layers = [Layer(**{**vars(layer), **change}) for layer in LAYERS[:2]]
        learned = stack(layers).fit(IMAGES, LABELS)
        if change.get("exemplars"):  # one exemplar per cluster: far fewer than a tenth
            assert all((numbers > 0).all() and (numbers < 12).all() for numbers in learned.n_exemplars_)
        if change.get("exemplars", 0) is None:
            assert [list(numbers) for numbers in learned.n_exemplars_] == [[120, 120, 120]] * 2
        if "bank" in change:
            column = learned.objective_terms_[1].index("denoising")
            assert (learned.objective_[1][:, column] > 0).all()


def test_without_class_terms_no_exemplars_are_sought(monkeypatch):
    monkeypatch.setattr("ddsfl.learning.stack.select_exemplars", None)  # would fail if called
    layers = [Layer(**{**vars(layer), "bank": {**BANK, "gamma": 0.0, "eta": 0.0}}) for layer in LAYERS[:2]]
    learned = stack(layers).fit(IMAGES, LABELS)
    assert [list(numbers) for numbers in learned.n_exemplars_] == [[0, 0, 0]] * 2
    assert [sharing.shape for sharing in learned.sharing_] == [(0, 8)] * 2


def test_max_patches_bounds_what_is_drawn():
    learned = stack(LAYERS[:1], max_patches=60).fit(IMAGES, LABELS)
    assert learned.n_exemplars_[0].sum() <= 3 * 2  # 5 patches per image, a tenth of 20 per class
    drawn = []
    stages = Stages(report=lambda name, _: drawn.append(name))
    stack(LAYERS[:1], max_patches=60).fit(IMAGES, LABELS, stages=stages)
    assert drawn == ["layer1.space", "layer1.exemplars", "layer1.bank"]


def test_drawn_inputs_do_not_depend_on_batches(fitted, monkeypatch):
    def draw(index):
        drawer = InputDrawer(IMAGES, LAYERS, fitted.learned_[:index], device=torch.device("cpu"), seed=3)
        return drawer.draw(fitted.learned_[index].space, 7, neighbours=2)

    together = [draw(index) for index in range(3)]
    monkeypatch.setattr("ddsfl.patches.batches.BATCH_PIXELS", {"cpu": 1})
    for index, expected in enumerate(together):
        alone = draw(index)
        torch.testing.assert_close(alone.projected, expected.projected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(alone.neighbours, expected.neighbours, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(alone.pictures, expected.pictures, atol=1e-4, rtol=1e-4)
        assert torch.equal(alone.images, torch.arange(12).repeat_interleave(7))


def test_the_space_is_that_of_every_nth_image(fitted, monkeypatch):
    monkeypatch.setattr("ddsfl.learning.inputs.SPACE_IMAGES", 5)

    def drawer(images):
        return InputDrawer(images, LAYERS, fitted.learned_[:1], device=torch.device("cpu"), seed=3)

    every = drawer(IMAGES)
    alone = drawer(IMAGES[::2])
    alone.seeds = every.seeds[::2]
    monkeypatch.setattr("ddsfl.learning.inputs.SPACE_INPUTS", 50)  # of 6 images, 8 of each
    found = every.learn_space()
    monkeypatch.setattr("ddsfl.learning.inputs.SPACE_IMAGES", 100)
    for part, expected in zip(found, alone.learn_space()):
        assert torch.equal(part, expected)


def test_pictures_come_from_every_nth_image_of_many(fitted, monkeypatch):
    def draw():
        drawer = InputDrawer(IMAGES, LAYERS, fitted.learned_[:1], device=torch.device("cpu"), seed=3)
        return drawer.draw(fitted.learned_[1].space, 7)

    whole = draw()
    assert len(whole.pictured) == 12 * 7
    assert (whole.pictures.flatten(1).abs().amax(dim=1) > 0.1).all()
    monkeypatch.setattr("ddsfl.learning.inputs.PICTURE_PATCHES", 4)
    few = draw()
    assert torch.equal(few.projected, whole.projected)
    assert few.pictured.tolist() == [0, 21, 42, 63]
    assert torch.equal(few.pictures, whole.pictures[few.pictured])
    monkeypatch.setattr("ddsfl.learning.inputs.PICTURE_PATCHES", 13)
    assert draw().pictured.tolist() == [7 * image + patch for image in range(12) for patch in range(2)]


def test_patches_of_white_backgrounds_are_equal_to_the_last_bit(fitted):
    """Whatever rounding and JPEG files left of them, in any batch and at any scale; others are unchanged."""
    rng = np.random.default_rng(0)
    images = [image.clone() for image in IMAGES]
    for image in images[::2]:
        image[:, :48] = 250
        image[:, :48, ::7] += torch.from_numpy(rng.integers(0, 2, (1, 48, image.shape[2]))[:, :, ::7]).byte()
    space = fitted.learned_[0].space
    drawn = InputDrawer(images, LAYERS, [], device=torch.device("cpu"), seed=3).draw(space, 40).projected
    flat = space.project(torch.zeros(1, len(space.mean)))
    equal = (drawn == flat).all(dim=1)
    near = (drawn - flat).norm(dim=1)
    assert 40 < equal.sum() < 240
    assert near[~equal].min() > 0.01 * near.max()


def test_neighbours_are_nearer_than_strangers(fitted):
    drawer = InputDrawer(IMAGES, LAYERS, [], device=torch.device("cpu"), seed=3)
    drawn = drawer.draw(fitted.learned_[0].space, 50, neighbours=3)
    assert (drawn.neighbours.norm(dim=2) > 0).all()
    near = (drawn.neighbours - drawn.projected[:, None]).norm(dim=2).mean()
    far = (drawn.projected[:, None] - drawn.projected.roll(1, 0)[:, None]).norm(dim=2).mean()
    assert near < 0.8 * far


def test_first_layer_pictures_are_what_excites_the_filter(fitted):
    """Among all patterns, that of a filter gives this filter its strongest response."""
    learned = fitted.learned_[0]
    patterns = patterns_of_filters(learned.space, learned.filters)
    inputs = learned.space.whiten(patterns @ learned.space.axes.T)
    responses = (inputs @ learned.filters.T).abs()
    assert (responses.argmax(dim=0) == torch.arange(8)).float().mean() > 0.7
    np.testing.assert_allclose(fitted.pixel_filters_[0].reshape(8, -1), patterns, rtol=1e-4, atol=1e-5)


def test_average_of_strongest_takes_the_strongest():
    pictures = contrast_normalise(torch.rand(30, 16)).view(30, 1, 4, 4)
    responses = torch.rand(30, 2)
    averages = average_of_strongest(responses, pictures, strongest=5)
    expected = pictures[responses[:, 1].argsort(descending=True)[:5]].mean(dim=0)
    torch.testing.assert_close(averages[1], expected)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        ([], [], "images is empty"),
        (IMAGES, LABELS[:-1], "y has 11 rows; expected one for each of the 12 images"),
        ([image[:, :40] for image in IMAGES], LABELS, "is smaller than the field of 64 pixels"),
        ([torch.zeros(1, 70, 70, dtype=torch.uint8)] * 12, LABELS, "nothing to learn from flat images"),
    ],
)
def test_bad_input_is_named(images, labels, message):
    with pytest.raises(ValueError, match=message):
        stack().fit(images, labels)


def test_an_unknown_selector_is_named():
    with pytest.raises(ValueError, match=r"exemplars\.method='guess'; expected one of"):
        Layer(**{**vars(LAYERS[0]), "exemplars": {"method": "guess"}})


@pytest.mark.cuda
@pytest.mark.parametrize("signs", [0.0, 0.5])
def test_cuda_describes_as_the_cpu_does(fitted, signs):
    layers = [replace(layer, signs=signs) for layer in LAYERS]
    stacks = [stack(layers, device=device) for device in ("cpu", "cuda")]
    for each in stacks:
        each.learned_ = fitted.learned_
    for here, there in zip(*(each.describe(IMAGES) for each in stacks)):
        torch.testing.assert_close(here.vectors, there.vectors.cpu(), atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(here.positions, there.positions.cpu())


@pytest.mark.cuda
def test_descriptors_in_half_precision_are_rounded_ones(fitted):
    there = stack(LAYERS, device="cuda")
    there.learned_ = fitted.learned_
    wide, mixed = there.describe(IMAGES), there.describe_in_halves(IMAGES, [0, 1], [1])
    assert [part.vectors.dtype for part in mixed] == [torch.float32, torch.float16]
    assert torch.equal(mixed[0].vectors, wide[0].vectors)
    assert torch.equal(mixed[1].vectors, wide[1].vectors.half())


def test_a_last_layer_without_filters_describes_by_pooled_responses():
    images = IMAGES
    first = Layer(n_scales=2, n_components=20, patches_per_image=30, bank={"n_filters": 8, "max_iter": 3})
    pooling = Layer(field=32, step=6, n_scales=2, grid=2, pool=3, bank=None)
    learned = stack([first, pooling]).fit(images, LABELS)
    assert len(learned.learned_) == 1
    layer1, pooled = learned.describe(images[:2])
    assert (layer1.vectors.shape[1], pooled.vectors.shape[1]) == (8, 32)
    [alone] = learned.describe(images[:2], outputs=[1])
    assert torch.equal(alone.vectors, pooled.vectors)
    forward = ForwardPass(learned.layers, learned.learned_, Batch.of(images[:1]))
    raw = forward.inputs_at(1, torch.tensor([0]), torch.tensor([[6, 12]]))
    at = (pooled.images == 0) & (pooled.positions == torch.tensor([6 + 16.0, 12 + 16.0])).all(dim=1)
    torch.testing.assert_close(pooled.vectors[at][:1], raw)
    # At its second scale this image is smaller than a filter.
    [small] = learned.describe([images[0][:, :17, :33]], outputs=[1])
    assert small.vectors.shape == (0, 32)
