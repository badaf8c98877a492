"""The first hour with components, from minute 40: own descriptors, learned filters, other libraries."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline, make_union

from ddsfl import (
    CENTRIST,
    GIST,
    DenseSIFT,
    FilterBank,
    FilterStack,
    FisherVector,
    ImageList,
    Layer,
    LocalDescriptors,
    NearestExemplars,
    VectorQuantisation,
)
from tests.support.tiny import tiny_scenes

IMAGES, LABELS = tiny_scenes(n_per_class=5)
SIFT = DenseSIFT(step=8, n_scales=2)


def own(**changes) -> LocalDescriptors:
    """Return 60 descriptors in two images of height 50 and width 200."""
    rng = np.random.default_rng(0)
    arrays = {
        "vectors": rng.standard_normal((60, 16)),
        "positions": rng.uniform(0, 1, (60, 2)) * [50, 200],
        "images": np.repeat([0, 1], 30),
        "shapes": np.array([[50, 200], [50, 200]]),
    }
    return LocalDescriptors(**{**arrays, **changes})


def test_own_descriptors_are_pooled_whatever_their_type_and_order():
    coding = FisherVector(n_gaussians=2, n_components=8, levels=((1, 1), (1, 3)), random_state=0).fit(own())
    expected = coding.transform(own())
    assert expected.shape == (2, len(coding.get_feature_names_out()))
    rows = own()
    reverse = LocalDescriptors(rows.vectors[::-1], rows.positions[::-1], rows.images[::-1], rows.shapes)
    np.testing.assert_allclose(coding.transform(reverse), expected, atol=1e-9)
    np.testing.assert_allclose(
        coding.transform(own(vectors=rows.vectors.astype(np.float16))), expected, atol=0.05
    )
    more = own(shapes=np.array([[50, 200]] * 3))  # the third image has no descriptors
    assert coding.transform(more).any(axis=1).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": own().vectors.tolist()}, "vectors is a list; expected an array or a tensor"),
        ({"vectors": own().vectors.astype(object)}, "vectors has dtype object; expected numbers"),
        ({"vectors": own().vectors * np.nan}, "vectors contains NaN or infinity"),
        ({"images": np.array(["a.jpg"] * 60)}, "images has dtype <U5; expected numbers"),
        ({"images": own().images + 0.5}, "images has fractions or NaN; expected whole numbers"),
        ({"images": own().images + 1}, "images has numbers from 1 to 2; expected 0 to 1"),
        ({"positions": own().positions[:9]}, r"positions has shape \(9, 2\); expected \(60, 2\)"),
        ({"shapes": np.array([50, 200])}, r"shapes has shape \(2,\); expected \(n_images, 2\)"),
    ],
)
def test_wrong_own_descriptors_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        VectorQuantisation(n_words=2).fit(own(**changes))


def test_swapped_coordinates_give_a_warning():
    coding = VectorQuantisation(n_words=4, random_state=0).fit(own())
    with pytest.warns(UserWarning, match=r"of 60 positions lie outside .* Expected \(y, x\) in pixels"):
        coding.transform(own(positions=own().positions[:, ::-1]))


def test_a_stack_learns_gray_or_colour_and_says_which():
    layer = Layer(
        n_components=12, n_scales=1, patches_per_image=20, bank={"n_filters": 6, "max_iter": 2, "rounds": 1}
    )
    stack = FilterStack([layer], random_state=0)
    with pytest.raises(NotFittedError):
        stack.transform(IMAGES)
    with pytest.raises(ValueError, match="y is None; expected one label per image"):
        stack.fit(IMAGES)
    stack.fit(IMAGES, LABELS)
    assert stack.transform(IMAGES)[0].vectors.shape[1] == len(stack.get_feature_names_out()) == 6
    colour = ImageList(IMAGES[:2], colour="lab")
    with pytest.raises(ValueError, match="images have 3 channels; expected 1, as in fit"):
        stack.transform(colour).collect()
    coloured = clone(stack).fit(ImageList(IMAGES, colour="lab"), LABELS)
    assert coloured.transform(colour)[0].vectors.shape[1] == 6
    with pytest.raises(ValueError, match=r'images have 1 channel; expected 3, as in fit.*colour="lab"'):
        coloured.transform(IMAGES).collect()
    stack.set_params(layers=[Layer(field=8)])
    for use in (lambda: stack.transform(IMAGES), stack.get_feature_names_out):
        with pytest.raises(
            ValueError, match="layers have changed in number or field since fit; call fit again"
        ):
            use()


def test_exemplars_and_filters_of_own_patches():
    local = SIFT.transform(IMAGES).collect()
    patches = local.vectors - local.vectors.mean(axis=0)
    patches /= np.sqrt((patches**2).sum(axis=1).mean())
    classes = np.array(LABELS)[local.images]
    exemplars = NearestExemplars(fraction=0.2).fit(patches, classes, groups=local.images)
    assert exemplars.support_.sum(axis=0).min() >= 1
    bank = FilterBank(n_filters=8, max_iter=2, rounds=1, random_state=0)
    bank.fit(patches, exemplars.support_, groups=local.images)
    assert bank.transform(patches).shape == (len(patches), 8)
    assert bank.sharing_.shape == (3, 8)


def test_vectors_of_entire_images_go_into_data_frames_and_unions():
    pytest.importorskip("pandas")
    frame = GIST().set_output(transform="pandas").fit_transform(IMAGES[:2])
    assert frame.shape == (2, 512)
    assert frame.columns[0] == "gist0"
    census = CENTRIST(n_components=10).fit(IMAGES)
    census.set_params(n_components=20)  # for the next fit
    assert census.transform(IMAGES).shape[1] == len(census.get_feature_names_out()) == 31 * 12
    both = make_union(CENTRIST(n_components=10), make_pipeline(SIFT, FisherVector(2, 4, random_state=0)))
    assert both.fit_transform(IMAGES).shape == (len(IMAGES), 31 * 12 + 16)
