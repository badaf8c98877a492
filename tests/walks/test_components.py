"""The first hour of a researcher who wants single components: arrays in, arrays out, in loops of their own.

The steps follow docs/components.md and include the usual mistakes. Each asserts what the user needs to see.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

import ddsfl
from ddsfl import (
    CENTRIST,
    GIST,
    LBP,
    LLC,
    OTC,
    DenseSIFT,
    DescribedImages,
    FilterBank,
    FilterStack,
    FisherVector,
    HOG2x2,
    ImageList,
    Layer,
    LinearClassifier,
    LocalDescriptors,
    NearestExemplars,
    SpatialPyramid,
    VectorQuantisation,
)
from tests.support.tiny import tiny_scenes, write_scenes

IMAGES, LABELS = tiny_scenes(n_per_class=5)
SIFT = DenseSIFT(step=8, n_scales=2)
LOCAL_DESCRIPTORS = [SIFT, HOG2x2(n_scales=1), LBP(n_scales=1), OTC(step=8, n_scales=2)]
EACH_DESCRIPTOR = pytest.mark.parametrize(
    "descriptor", LOCAL_DESCRIPTORS, ids=lambda found: type(found).__name__
)
EACH_CODING = pytest.mark.parametrize(
    "coding",
    [
        LLC(n_words=16, random_state=0),
        VectorQuantisation(n_words=16, random_state=0),
        FisherVector(n_gaussians=4, n_components=16, random_state=0),
    ],
    ids=lambda found: type(found).__name__,
)


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    """Run a script as the user does: another process, in this folder, with nothing else set."""
    Path("script.py").write_text(text, encoding="utf-8")
    clean = {"PATH": os.environ["PATH"], "HOME": str(Path.cwd()), "OMP_NUM_THREADS": "1", "LANG": "C.UTF-8"}
    clean["PYTHONPATH"] = str(Path(ddsfl.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "script.py"],
        env=clean,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


# Minute 0: a script over a folder of photographs, with blanks and umlauts in its name.


@pytest.mark.slow
def test_the_first_script_goes_from_files_to_labels():
    write_scenes(Path("Fotos von Müllers"), n_per_class=4)
    done = run_script("""
from pathlib import Path
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from ddsfl import LLC, DenseSIFT, SpatialPyramid

paths = sorted(Path("Fotos von Müllers").glob("*/*.png"))
labels = [path.parent.name for path in paths]
described = DenseSIFT(step=8).transform(paths)
print(described)
print(described[0])
model = make_pipeline(DenseSIFT(step=8), LLC(n_words=32, random_state=0), SpatialPyramid(), LinearSVC())
print(model.fit(paths, labels).score(paths, labels))
print(DenseSIFT().transform(["Fotos von Müllers/nowhere.png"])[0])
""")
    lines = done.stdout.splitlines()
    assert lines[0] == "<DescribedImages: 12 images>"
    assert lines[1].startswith("<LocalDescriptors: vectors (")  # shapes, not thousands of numbers
    assert float(lines[2]) > 0.9
    # The last line of the traceback is what the user reads.
    assert done.stderr.splitlines()[-1].endswith(
        "Fotos von Müllers/nowhere.png cannot be read: no such file or directory."
    )
    assert done.returncode == 1


# Minute 10: images of all kinds.


@EACH_DESCRIPTOR
def test_images_may_be_arrays_of_any_kind(descriptor):
    image = IMAGES[0]
    Image.fromarray(image).save("one.png")
    same = [image, image / 255.0, (image / 255).astype(np.float32), np.stack([image] * 3, axis=2), "one.png"]
    first, *others = descriptor.transform(same)
    assert first.vectors.shape == (len(first), len(descriptor.get_feature_names_out()))
    assert first.positions.shape == (len(first), 2)
    for other in others:
        np.testing.assert_allclose(other.vectors, first.vectors, atol=1e-6)
    flipped, tiny = descriptor.transform([image[:, ::-1], image[:3, :2]])
    assert len(flipped) == len(first)
    assert len(tiny) >= 1  # small images are enlarged
    assert np.isfinite(tiny.vectors).all()


@pytest.mark.parametrize("describe", [SIFT.transform, GIST().transform, CENTRIST().fit])
@pytest.mark.parametrize(
    ("images", "message"),
    [
        (IMAGES[0], r"images is one image \(an array of shape .*\); expected a list of images: \[images\]"),
        ([], "images is empty; expected at least one image"),
        (None, "images has type NoneType; expected a list of images"),
    ],
)
def test_what_is_no_list_of_images_is_named_at_once(describe, images, message):
    with pytest.raises(ValueError, match=message):
        describe(images)


def test_wrong_pixels_are_named_with_the_number_of_the_image():
    for wrong, message in [
        (IMAGES[0].astype(float), r"image 1 .* floats must lie in \[0, 1\]; found"),
        (IMAGES[0].astype(int), "image 1 .* expected bool, uint8, uint16 or floats"),
        (np.zeros((3, 50, 60), np.uint8), r"image 1 .* found shape \(3, 50, 60\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            SIFT.transform([IMAGES[0], wrong]).collect()


# Minute 20: what `transform` returns, in loops and splits.


def test_described_images_are_a_sequence_that_computes_when_it_is_read():
    described = SIFT.transform(IMAGES)
    assert repr(described[:1]) == "<DescribedImages: 1 image>"
    sizes = [len(local) for local in described]
    assert len(sizes) == len(described) == len(IMAGES)
    np.testing.assert_array_equal(described[-1].vectors, described[len(IMAGES) - 1].vectors)
    some = described[[2, 0]]
    np.testing.assert_array_equal(some[1].vectors, described[0].vectors)
    mask = np.array(LABELS) == LABELS[0]
    assert len(described[mask]) == mask.sum()
    local = described.collect()
    np.testing.assert_allclose(local.vectors[local.images == 3], described[3].vectors, atol=1e-5)


def test_splits_of_described_images_describe_nothing(monkeypatch):
    described = SIFT.transform(IMAGES)
    with monkeypatch.context() as patch:
        patch.setattr(DenseSIFT, "describe", None)  # would fail if it were called
        learn, test, *_ = train_test_split(described, LABELS, random_state=0)
    assert isinstance(learn, DescribedImages)
    assert len(learn) + len(test) == len(IMAGES)
    pipeline = make_pipeline(FisherVector(n_gaussians=4, n_components=16, random_state=0), LinearSVC())
    scores = cross_val_score(pipeline, described, LABELS, cv=2, error_score="raise")
    in_memory = cross_val_score(pipeline, list(described), LABELS, cv=2, error_score="raise")
    np.testing.assert_allclose(scores, in_memory)


def test_descriptors_taken_for_a_matrix_say_where_the_matrix_is():
    local = SIFT.transform(IMAGES[:2]).collect()
    for consumer in (
        LinearSVC(),
        RandomForestClassifier(),
        LinearClassifier(),
        FilterBank(),
        NearestExemplars(),
    ):
        with pytest.raises(ValueError, match=r"code and pool it first, .* one per row, as `vectors`"):
            consumer.fit(local, [0, 1])
    assert PCA(4).fit_transform(local.vectors).shape == (len(local), 4)
    assert (local == local.numpy()) is False  # an answer, not an error about the truth of an array


# Minute 30: two codings compared, with the classifier of another library.


def test_two_codings_are_compared_on_the_same_descriptors():
    described = list(SIFT.transform(IMAGES))  # kept in memory, described once
    words = make_pipeline(LLC(n_words=64, random_state=0), SpatialPyramid(), Normalizer(), LinearSVC())
    counts = make_pipeline(
        VectorQuantisation(n_words=64, random_state=0),
        SpatialPyramid(pooling="average"),
        RandomForestClassifier(),
    )
    fisher = make_pipeline(
        FisherVector(n_gaussians=4, random_state=0), LogisticRegression(C=100), memory="cache"
    )
    for pipeline in (words, counts, fisher):
        assert pipeline.fit(described, LABELS).score(described, LABELS) > 0.9
    vectors = words[:-1].transform(described)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(IMAGES), 21 * 64)
    assert list(words[:-1].get_feature_names_out()[:2]) == ["spatialpyramid0", "spatialpyramid1"]


def test_parameters_are_searched_and_copies_are_unfitted():
    pipeline = make_pipeline(
        SIFT, LLC(n_words=8, random_state=0), SpatialPyramid(((1, 1),)), LinearClassifier(C=1.0)
    )
    search = GridSearchCV(
        pipeline, {"llc__n_words": [5, 8], "densesift__step": [8, 16]}, cv=2, error_score="raise"
    )
    best = search.fit(IMAGES, LABELS).best_estimator_
    assert best["llc"].words_.shape == (search.best_params_["llc__n_words"], 128)
    with pytest.raises(NotFittedError, match="This LLC instance is not fitted yet"):
        clone(best["llc"]).transform(SIFT.transform(IMAGES))
    with pytest.raises(ValueError, match="Invalid parameter 'n_word' for estimator LLC"):
        best["llc"].set_params(n_word=3)


@EACH_CODING
def test_wrong_input_of_a_coding_is_named(coding):
    described = SIFT.transform(IMAGES[:4])
    matrices = [local.vectors for local in described]
    fitted = clone(coding).fit(described)
    with pytest.raises(NotFittedError):
        coding.transform(described)
    for wrong, message in [
        ([], "X is empty; expected LocalDescriptors of at least one image"),
        (None, "X is NoneType; expected LocalDescriptors"),
        ((local for local in described), "X is generator; expected LocalDescriptors, a list of them"),
        (
            matrices,
            r"matrices of 128 columns.* LocalDescriptors, with positions, or one matrix: np.concatenate",
        ),
        ([described[0], IMAGES[0]], r"X\[1\] is ndarray; expected LocalDescriptors"),
        (IMAGES, "X is a list of images"),
        (["a.jpg"], "X is a list of images; expected their descriptors"),
    ]:
        for use in (clone(coding).fit, fitted.transform):
            with pytest.raises(ValueError, match=message):
                use(wrong)
    assert fitted.transform(np.concatenate(matrices)).shape[0] == sum(map(len, matrices))
    with pytest.raises(ValueError, match=r"X has 64 features, but .* is expecting 128"):
        fitted.transform(matrices[0][:, :64])
    too_many = clone(coding).set_params(**{coding.size_name: 100_000})
    with pytest.raises(ValueError, match=f"{coding.size_name}=100000; expected .* n_samples="):
        too_many.fit(described)


def test_wrong_input_of_a_pyramid_is_named():
    llc = LLC(n_words=8, random_state=0).fit(SIFT.transform(IMAGES))
    codes = llc.transform(SIFT.transform(IMAGES))
    for wrong, message in [
        ([], "X is empty; expected LocalCodes of at least one image"),
        ([codes[0], IMAGES[0]], r"X\[1\] is ndarray; expected LocalCodes"),
        (
            llc.transform(SIFT.transform(IMAGES)[0].vectors),
            "X is ndarray of shape .* expected codes with positions",
        ),
        (SIFT.transform(IMAGES), "X holds LocalDescriptors; expected LocalCodes: code them first"),
    ]:
        with pytest.raises(ValueError, match=message):
            SpatialPyramid().transform(wrong)
    with pytest.raises(ValueError, match=r"levels=\[1, 2, 4\]; expected 1 to 20 pairs \(rows, columns\)"):
        SpatialPyramid([1, 2, 4]).fit(codes)


# Minute 40: descriptors of another library.


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


# Minute 50: learned filters, and vectors of entire images.


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


# Minute 60: many images.


@pytest.mark.slow
def test_many_images_need_no_more_memory_than_their_vectors():
    done = run_script("""
import resource
from ddsfl import DenseSIFT, FisherVector, make_scenes

images, _ = make_scenes(n_per_class=2, random_state=0)
few, many = images[:8], images * 40
coding = FisherVector(n_gaussians=2, n_components=8, random_state=0).fit(DenseSIFT(n_scales=1).transform(few))
coding.transform(DenseSIFT(n_scales=1).transform(images * 8))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(coding.transform(DenseSIFT(n_scales=1).transform(many)).shape)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""")
    assert done.stderr == ""
    shape, kilobytes = done.stdout.splitlines()
    assert shape == "(640, 32)"
    # Their descriptors would take 640 x 0.5 MB.
    assert int(kilobytes) < 100_000
