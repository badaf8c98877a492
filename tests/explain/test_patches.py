"""Training patches behind words: the nearest of each word, one of an image, cut where the descriptor lay."""

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl import SceneClassifier
from ddsfl.explain import patches as module
from ddsfl.explain.patches import SIDE, WordPatches, collect_patches, cut_out
from ddsfl.model.file import read_header
from tests.support.tiny import TINY, tiny_scenes

FISHER = {
    "blocks.coding": {"method": "fisher", "n_gaussians": 4, "n_components": 6, "max_iter": 3},
    **{path: value for path, value in TINY.items() if not path.startswith("blocks.coding")},
}


@pytest.fixture(scope="module")
def images():
    return tiny_scenes()


@pytest.fixture(scope="module")
def llc(images):
    return SceneClassifier(changes=TINY, random_state=0, device="cpu").fit(*images)


@pytest.fixture(scope="module")
def fisher(images):
    return SceneClassifier(changes=FISHER, random_state=0, device="cpu").fit(*images)


def library(model, images):
    images, labels = images
    listed = model.settings_.image_list(images)
    numbers = [list(model.classes_).index(label) for label in labels]
    return collect_patches(model._encoder(), listed, numbers)


def test_the_nearest_patches_of_each_word_are_kept(llc, images):
    found = library(llc, images)["layer1"]
    words = llc.codings_[0].words_
    source = llc.stack_
    listed = llc.settings_.image_list(images[0])
    for word in (0, 5, 11):
        rows = found.of_word(word)
        distances, crops = [], []
        for number, pixels in enumerate(listed):
            vectors = source.describe([pixels], [0])[0].vectors.numpy()
            away = ((vectors - words[word]) ** 2).sum(axis=1)
            boxes = source.field_grid(0).fields(tuple(pixels.shape[1:])).boxes((1, 1))
            best = int(away.argmin())
            distances.append(away[best])
            crops.append(cut_out(Image.fromarray(images[0][number]), boxes[best].tolist()))
        order = np.argsort(distances)[:4]
        assert rows.stop - rows.start == 4
        np.testing.assert_array_equal(found.pixels[rows], np.stack([crops[number] for number in order]))
        assert [llc.classes_[label] for label in found.labels[rows]] == [images[1][n] for n in order]


def test_patches_of_colour_images_are_in_colour(images):
    grays, labels = images
    coloured = [np.stack([image, image // 2, image // 4], axis=2) for image in grays]
    model = SceneClassifier(changes=TINY, random_state=0, device="cpu").fit(coloured, labels)
    found = library(model, (coloured, labels))["layer1"]
    assert found.pixels.shape[1:] == (SIDE, SIDE, 3)
    assert found.pixels[..., 0].mean() > 1.9 * found.pixels[..., 1].mean()


def test_members_of_a_gaussian_are_equally_typical_and_chosen_at_random(fisher, images):
    found = library(fisher, images)["layer1"]
    assert found.features.shape[1] == 6
    assert set(found.words.tolist()) == {0, 1, 2, 3}
    assert (np.diff(found.words) >= 0).all()
    coding = fisher.codings_[0]
    vectors = torch.cat([fisher.stack_.describe([pixels], [0])[0].vectors
                         for pixels in fisher.settings_.image_list(images[0][:2])])  # fmt: skip
    likeness = coding.likeness(vectors)
    assert float(likeness.max()) == 0.5
    assert ((likeness == 0.5).sum(dim=1) <= 1).all()


def test_few_images_are_searched(llc, images, monkeypatch):
    monkeypatch.setattr(module, "N_IMAGES", 3)
    seen = []
    found = collect_patches(
        llc._encoder(), llc.settings_.image_list(images[0]), [0] * 4 + [1] * 4 + [2] * 4,
        lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert set(found["layer1"].labels.tolist()) == {0, 1, 2}  # spread over the list, not its beginning
    assert len(found["layer1"]) == 3 * 12


def test_an_image_without_descriptors_of_an_upper_layer_gives_none(llc, images):
    best = module._Best(llc.codings_[1], 2)
    best.look(0, torch.zeros(0, 20), torch.zeros(0, 4))
    assert best.features == {}
    assert (best.likeness == -torch.inf).all()


def test_of_word_finds_the_rows():
    rows = WordPatches(np.array([0, 0, 2]), np.zeros((3, 1, 1)), np.zeros(3), np.zeros((3, 0)))
    assert (rows.of_word(0), rows.of_word(1), rows.of_word(2)) == (slice(0, 2), slice(2, 2), slice(2, 3))


def test_evidence_shows_the_patches_of_a_word(llc, fisher, images):
    for model in (llc, fisher):
        assert model.patches_ is None
        [plain] = model.explain(images[0][:1])
        word = plain.words(1)[0]
        assert plain.patches(word.block, word.word) == []
        model.collect_patches(*images)
        [evidence] = model.explain(images[0][:1])
        shown = evidence.patches(word.block, word.word, n=3)
        kept = model.patches_[word.block]
        rows = kept.of_word(word.word)
        assert len(shown) == 3
        pixels = [patch.tobytes() for patch in kept.pixels[rows]]
        assert all(patch.tobytes() in pixels for patch, _ in shown)
        model.patches_ = None


def test_patches_of_a_gaussian_are_those_that_say_the_same(fisher, images):
    fisher.collect_patches(*images)
    [evidence] = fisher.explain(images[0][:1])
    word = evidence.words(1)[0]
    [part] = [part for part in evidence.parts if part.block.name == word.block]
    rows = part.library.of_word(word.word)
    mix = evidence._asked(None, None)
    loudness = part.echoes[rows] @ mix * np.sign(part.by_word[word.word] @ mix)
    first, _ = evidence.patches(word.block, word.word, n=1)[0]
    np.testing.assert_array_equal(first, part.library.pixels[rows.start + int(loudness.argmax())])
    assert loudness.max() > loudness.min()
    fisher.patches_ = None


def test_no_patch_of_a_gaussian_contradicts_what_it_says(fisher, images):
    fisher.collect_patches(*images)
    left_out = 0
    for evidence in fisher.explain(images[0][:6]):
        mix = evidence._asked(None, None)
        for word in [*evidence.words(20), *evidence.words(20, speaking="against")]:
            [part] = [part for part in evidence.parts if part.block.name == word.block]
            rows = part.library.of_word(word.word)
            agree = part.echoes[rows] @ mix * word.value >= 0
            pixels = [patch.tobytes() for patch in part.library.pixels[rows][agree]]
            shown = evidence.patches(word.block, word.word, n=len(agree))
            assert sorted(patch.tobytes() for patch, _ in shown) == sorted(pixels)
            left_out += int((~agree).sum())
    assert left_out > 0
    fisher.patches_ = None


def test_patches_are_saved_only_on_request(llc, images, tmp_path):
    llc.save(tmp_path / "plain")
    llc.collect_patches(*images).save(tmp_path / "with")
    plain, kept = SceneClassifier.load(tmp_path / "plain"), SceneClassifier.load(tmp_path / "with")
    assert plain.patches_ is None
    assert not read_header(tmp_path / "plain")["keeps_patches"]
    assert read_header(tmp_path / "with")["keeps_patches"]
    for name, patches in llc.patches_.items():
        for part, array in patches.state().items():
            np.testing.assert_array_equal(array, kept.patches_[name].state()[part])
    llc.patches_ = None


def test_other_images_are_refused(llc, images):
    with pytest.raises(ValueError, match="X holds other images than the model was trained with"):
        llc.collect_patches(images[0][::-1], images[1][::-1])


def test_labels_that_the_model_does_not_know_are_refused(llc, images):
    renamed = [f"new {label}" for label in images[1]]
    with pytest.raises(ValueError, match=r"y='new .*' is not a class"):
        llc.collect_patches(images[0], renamed)
    assert llc.patches_ is None
