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
from sklearn.pipeline import make_pipeline
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
    FisherVector,
    HOG2x2,
    LinearClassifier,
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
    too_many = clone(coding).set_params(**{coding.size_name: 8_000})
    with pytest.raises(ValueError, match=f"{coding.size_name}=8000; expected .* n_samples="):
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


# Minutes 40 to 60 are in test_own_descriptors.py. At the end: many images.


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
