"""Components outside a classifier: pipelines from images to labels, with the vectors of the blocks."""

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import LinearSVC

from ddsfl import (
    CENTRIST,
    GIST,
    LBP,
    LLC,
    OTC,
    DenseSIFT,
    FilterStack,
    FisherVector,
    HOG2x2,
    Layer,
    SpatialPyramid,
    VectorQuantisation,
)
from ddsfl.encoder.encoder import unit_vectors
from tests.support.models import FUSED, IMAGES, LABELS, LEVELS, SIFT, model_of

COUNTS = {**SIFT, "name": "counts", "coding": {"method": "vq", "n_words": 9}, "pooling": "average"}
SMALL = {"step": 8, "n_scales": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def model():
    changes = {**FUSED, "blocks": [*FUSED["blocks"], COUNTS]}
    return model_of(changes).fit(IMAGES, LABELS)


def test_a_pipeline_gives_the_vectors_of_the_blocks(model):
    """Exactly: the same operations on the same batches. Only the unit length is missing."""
    blocks = model.block_vectors(IMAGES)
    for block, coding in zip(model.settings_.blocks, model.codings_):
        source = model.sources_[block.source]
        levels = tuple(map(tuple, block.levels))
        if isinstance(source, FilterStack):
            described = source.transform(IMAGES, output=block.output)
        else:
            described = source.transform(IMAGES)
        if coding is None:
            vectors = described
        elif isinstance(coding, FisherVector):
            vectors = coding.transform(described, levels=levels)
        else:
            vectors = make_pipeline(coding, SpatialPyramid(levels, block.pooling)).transform(described)
        assert isinstance(vectors, np.ndarray)
        scaled = unit_vectors(torch.from_numpy(vectors), block.power)
        assert torch.equal(scaled, blocks[block.name]), block.name


@pytest.mark.parametrize(
    "coding",
    [
        (LLC(n_words=10, device="cpu", random_state=0), SpatialPyramid(((1, 1), (2, 2)))),
        (VectorQuantisation(n_words=10, device="cpu", random_state=0), SpatialPyramid(pooling="average")),
        (FisherVector(n_gaussians=2, n_components=4, levels=((1, 1), (2, 1)), device="cpu", random_state=0),),
    ],
)
def test_a_pipeline_learns_from_images_to_labels(coding):
    pipeline = make_pipeline(DenseSIFT(**SMALL), *coding, LinearSVC(random_state=0))
    pipeline = clone(pipeline).fit(IMAGES, LABELS)
    assert pipeline.score(IMAGES, LABELS) > 0.9
    vectors = pipeline[:-1].transform(IMAGES)
    assert len(pipeline[:-1].get_feature_names_out()) == vectors.shape[1]
    assert isinstance(vectors, np.ndarray)
    np.testing.assert_array_equal(clone(pipeline)[:-1].fit_transform(IMAGES, LABELS), vectors)  # one seed
    tensors = [torch.from_numpy(image)[None] for image in IMAGES]
    there = pipeline[:-1].transform(tensors)
    assert isinstance(there, torch.Tensor)
    np.testing.assert_array_equal(there, vectors)


def test_parameters_of_all_steps_can_be_searched():
    pipeline = make_pipeline(
        DenseSIFT(**SMALL),
        LLC(n_words=8, device="cpu", random_state=0),
        SpatialPyramid(((1, 1),)),
        LinearSVC(),
    )
    grid = {"densesift__step": [8, 16], "llc__n_words": [5, 8], "spatialpyramid__levels": [((2, 2),)]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(IMAGES, LABELS)
    assert search.best_estimator_[:-1].transform(IMAGES).shape == (
        12,
        4 * search.best_params_["llc__n_words"],
    )


@pytest.mark.parametrize(
    "source", [DenseSIFT(**SMALL), OTC(**SMALL), HOG2x2(n_scales=1, device="cpu"), LBP(device="cpu")]
)
def test_all_local_descriptors_take_all_forms_of_images(source, tmp_path):
    Image.fromarray(IMAGES[0]).save(tmp_path / "a.png")
    forms = [IMAGES[0], tmp_path / "a.png", Image.fromarray(IMAGES[0])]
    described = clone(source).fit_transform(forms)
    for local in described:
        np.testing.assert_array_equal(local.vectors, described[0].vectors)
    assert described[0].vectors.shape[1] == len(source.get_feature_names_out())
    assert not source.__sklearn_tags__().requires_fit


def test_vectors_of_entire_images():
    gist = GIST(device="cpu").fit_transform(IMAGES[:2])
    assert isinstance(gist, np.ndarray)
    tensors = [torch.from_numpy(image)[None] for image in IMAGES[:2]]
    np.testing.assert_array_equal(gist, GIST(device="cpu").embed(tensors))
    assert isinstance(GIST(device="cpu").transform(tensors), torch.Tensor)
    assert len(GIST().get_feature_names_out()) == gist.shape[1]
    census = CENTRIST(n_components=10, device="cpu")
    assert census.__sklearn_tags__().requires_fit
    assert census.fit_transform(IMAGES).shape == (12, len(census.get_feature_names_out()))
    both = make_union(census, make_pipeline(DenseSIFT(**SMALL), FisherVector(2, 4, device="cpu")))
    assert both.fit_transform(IMAGES).shape == (12, 31 * 12 + 16)
    with pytest.raises(ValueError, match="images is empty"):
        census.fit([])


def test_a_stack_learns_from_arrays_and_gives_the_descriptors_of_a_layer():
    layers = [
        Layer(n_scales=1, n_components=9, patches_per_image=20, bank={"n_filters": 5, "max_iter": 2}),
        Layer(
            field=32, step=6, n_scales=1, n_components=8, grid=2, pool=7, bank={"n_filters": 4, "max_iter": 2}
        ),
    ]
    stack = FilterStack(layers, random_state=0, device="cpu")
    assert stack.__sklearn_tags__().target_tags.required
    with pytest.raises(ValueError, match="y is None; expected one label per image"):
        stack.fit(IMAGES)
    pipeline = make_pipeline(
        stack, LLC(n_words=6, device="cpu", random_state=0), SpatialPyramid(), LinearSVC()
    )
    assert pipeline.fit(IMAGES, LABELS).predict(IMAGES[:2]).shape == (2,)
    tensors = [torch.from_numpy(image)[None] for image in IMAGES[:1]]
    first, last = stack.describe(tensors)
    np.testing.assert_array_equal(stack.transform(IMAGES[:1])[0].vectors, last.vectors)
    np.testing.assert_array_equal(stack.transform(IMAGES[:1], output=0)[0].vectors, first.vectors)
    assert len(stack.get_feature_names_out()) == last.vectors.shape[1]
    with pytest.raises(ValueError, match="output=2; expected from 0 to 1, or -1 for the last"):
        stack.transform(IMAGES, output=2)


def test_wrong_parameters_are_named_before_anything_is_described():
    with pytest.raises(ValueError, match="threshold=-1"):
        DenseSIFT(threshold=-1).fit(IMAGES)
    with pytest.raises(ValueError, match="threshold=-1"):
        DenseSIFT(threshold=-1).transform(IMAGES)


def test_missing_steps_of_a_pipeline_are_named():
    with pytest.raises(ValueError, match="not a matrix with one row per image; code and pool it first"):
        make_pipeline(DenseSIFT(**SMALL), LinearSVC()).fit(IMAGES, LABELS)
    with pytest.raises(ValueError, match="X holds LocalDescriptors; expected LocalCodes"):
        make_pipeline(DenseSIFT(**SMALL), SpatialPyramid()).fit(IMAGES)
    with pytest.raises(ValueError, match="X is a list of images"):
        make_pipeline(LLC(n_words=5, device="cpu"), SpatialPyramid()).fit(IMAGES)
    with pytest.raises(ValueError, match="`set_output` is not available"):
        make_pipeline(DenseSIFT(**SMALL), GIST()).set_output(transform="pandas")


@pytest.mark.parametrize("method", [DenseSIFT(**SMALL).describe, GIST(device="cpu").embed])
@pytest.mark.parametrize(
    ("images", "message"),
    [
        (IMAGES[:1], r"images\[0\] is ndarray; expected a list of uint8 tensors .* `transform` takes arrays"),
        (torch.zeros(1, 40, 40, dtype=torch.uint8), r"images\[0\] is a torch.uint8 tensor of 2 dimensions"),
        ([torch.zeros(1, 40, 40)], r"images\[0\] is a torch.float32 tensor of 3 dimensions"),
        ([], "images is empty"),
    ],
)
def test_the_inner_methods_name_what_is_not_decoded(method, images, message):
    with pytest.raises(ValueError, match=message):
        method(images)


def test_colour_and_gray_tensors_do_not_mix():
    mixed = [torch.zeros(channels, 40, 40, dtype=torch.uint8) for channels in (1, 3)]
    with pytest.raises(ValueError, match=r"images\[1\] has 3 channels and images\[0\] has 1"):
        OTC(**SMALL).describe(mixed)


def test_levels_of_a_block_are_not_those_of_its_coding():
    with pytest.raises(ValueError, match=r"coding\.levels: found .*; expected them as levels of the block"):
        model_of({"blocks": [{**SIFT, "coding": {"method": "fisher", "levels": LEVELS}}]}).fit(IMAGES, LABELS)
