import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.svm import LinearSVC

from ddsfl.classify.linear import LinearClassifier
from ddsfl.datasets.voc import (
    VOC_CLASSES,
    VocTruth,
    check_voc,
    read_voc,
    score_voc,
    voc_folder,
    write_results,
)
from ddsfl.images.folders import ImageSetError
from ddsfl.model.classifier import SceneClassifier
from tests.oracles.voc import voc_evaluate, write_voc
from tests.support.tiny import TINY, tiny_scenes

CLASSES = ("bird", "car", "cat")


@pytest.fixture
def tree(tmp_path):
    """40 images in train and val and 5 in test, a sixth of the labels difficult."""
    rng = np.random.default_rng(0)
    ids = [f"2008_{number:06}" for number in range(45)]
    truth = {key: rng.choice([-1, 0, 1], len(CLASSES), p=[0.5, 0.17, 0.33]) for key in ids}
    subsets = {"train": ids[:20], "val": ids[20:40], "trainval": ids[:40], "test": ids[40:]}
    root = tmp_path / "VOCdevkit" / "VOC2012"
    write_voc(root, truth, CLASSES, subsets)
    return root, truth, subsets


def test_lists_are_read_in_their_order_with_difficult_images(tree):
    root, truth, subsets = tree
    val = read_voc(root, "val", CLASSES)
    assert val.ids == subsets["val"]
    assert val.paths[3] == root / "JPEGImages" / f"{val.ids[3]}.jpg"
    np.testing.assert_array_equal(val.truth, [truth[key] for key in val.ids])
    for key, certain, all_ in zip(val.ids, val.labels, val.training_labels):
        assert certain == tuple(name for name, value in zip(CLASSES, truth[key]) if value == 1)
        assert all_ == tuple(name for name, value in zip(CLASSES, truth[key]) if value != -1)
    assert any(one != other for one, other in zip(val.labels, val.training_labels))


def test_test_images_have_no_labels(tree):
    test = read_voc(tree[0], "test", CLASSES)
    assert test.truth is None
    assert test.labels == test.training_labels == [()] * 5


def test_the_folder_may_be_given_at_three_depths(tree, tmp_path):
    root = tree[0]
    assert voc_folder(tmp_path) == voc_folder(root.parent) == voc_folder(root) == root
    with pytest.raises(ImageSetError, match="not VOC2007: expected ImageSets/Main"):
        voc_folder(tmp_path, year=2007)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("val.txt", "", "lists no images"),
        ("val.txt", "a\nb\na\n", "lists a twice"),
        ("val.txt", "a b\n", "line 'a b'; expected 1 field"),
        ("cat_val.txt", "2008_000020 1\n", "differ in 19 image"),
        ("cat_val.txt", None, r"1 label file\(s\) are missing, .*cat_val.txt"),
        ("val.txt", None, "cannot be opened"),
    ],
)
def test_lists_that_do_not_fit_are_named(tree, file, text, message):
    path = tree[0] / "ImageSets" / "Main" / file
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises(ImageSetError, match=message):
        read_voc(tree[0], "val", CLASSES)


@pytest.mark.parametrize("name", ["../../secret", "/etc/hostname", "a\\\\b", "a\\0b"])
def test_lists_name_no_files_in_other_folders(tree, name):
    (tree[0] / "ImageSets" / "Main" / "train.txt").write_text(f"2008_000001\n{name}\n")
    with pytest.raises(ImageSetError, match=r"train.txt lists '.*'; expected names without a folder"):
        read_voc(tree[0], "train", CLASSES)


def test_long_lists_and_long_names_are_no_trouble(tree):
    lists = tree[0] / "ImageSets" / "Main"
    lines = [*(str(number) for number in range(50_000)), "49999"]
    (lists / "train.txt").write_text("\n".join(lines))
    with pytest.raises(ImageSetError, match=r"train.txt lists 49999 twice"):
        read_voc(tree[0], "train", CLASSES)
    (lists / "test.txt").write_text("x" * 5000)
    assert check_voc(tree[0], {"test": 1}, {}) == [
        f"1 image(s) of test.txt are missing or empty, for example {'x' * 5000}.jpg."
    ]


def test_labels_other_than_1_0_and_minus_1_are_refused(tree):
    path = tree[0] / "ImageSets" / "Main" / "car_val.txt"
    path.write_text(path.read_text().replace(" 1", " 2", 1))
    with pytest.raises(ImageSetError, match=r"car_val.txt labels 2008_\d+ '2'; expected 1, 0 or -1"):
        read_voc(tree[0], "val", CLASSES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_average_precision_is_that_of_the_development_kit_on_the_files(tree, tmp_path, dtype):
    root = tree[0]
    val = read_voc(root, "val", CLASSES)
    scores = (np.random.default_rng(1).standard_normal((20, 3)) * 1e-7).astype(dtype)
    scores[0] = 1e6  # the others are so small that they would tie with six digits after the point
    files = write_results(tmp_path, val.ids, CLASSES, torch.from_numpy(scores), subset="val")
    assert [str(file.relative_to(tmp_path)) for file in files] == [
        f"results/VOC2012/Main/comp1_cls_val_{name}.txt" for name in CLASSES
    ]
    measured = score_voc(val.truth, scores, CLASSES)
    for name, file in zip(CLASSES, files):
        expected = voc_evaluate(root / "ImageSets" / "Main" / f"{name}_val.txt", file)
        assert measured["average_precision"][name] == pytest.approx(expected, abs=1e-12)
    mean = np.mean(list(measured["average_precision"].values()))
    assert measured["mean_average_precision"] == pytest.approx(mean)


def test_a_class_that_no_image_shows_has_no_average_precision():
    measured = score_voc([[1, -1], [-1, 0]], [[1.0, 1.0], [0.0, 0.0]], ["cat", "dog"])
    assert measured == {"average_precision": {"cat": 1.0, "dog": None}, "mean_average_precision": 1.0}
    with pytest.raises(ValueError, match=r"shapes \(1, 2\) and \(1, 1\); expected .* 2 columns"):
        score_voc([[1, 1]], [[1.0]], ["cat", "dog"])


def test_result_files_keep_every_digit_and_bad_scores_are_refused(tmp_path):
    value = np.float64(0.1) + np.float64(1e-16)
    (file,) = write_results(tmp_path, ["a", "b"], ["cat"], [[value], [-3]], competition="comp2")
    assert file.name == "comp2_cls_test_cat.txt"
    lines = file.read_text().splitlines()
    assert float(lines[0].split()[1]) == value
    assert lines[1] == "b -3.0"
    with pytest.raises(ValueError, match="competition is 'comp3'"):
        write_results(tmp_path, ["a"], ["cat"], [[1.0]], competition="comp3")
    with pytest.raises(ValueError, match=r"shape \(1, 1\); expected \(2, 1\)"):
        write_results(tmp_path, ["a", "b"], ["cat"], [[1.0]])
    with pytest.raises(ValueError, match="NaN"):
        write_results(tmp_path, ["a"], ["cat"], [[np.nan]])


def labels_of(truth):
    names = tuple(map(str, range(truth.shape[1])))
    return VocTruth([""] * len(truth), names, truth, False).labels(range(len(truth))).numbered


@pytest.mark.parametrize("width", [6, 60])  # solved by rows, and by their inner products
def test_the_svm_of_a_class_leaves_out_its_difficult_images(width):
    rng = np.random.default_rng(2)
    X, truth = rng.standard_normal((40, width)), rng.choice([-1, 0, 1], (40, 3))
    classifier = LinearClassifier(C=2.0, device="cpu").fit(X, labels_of(truth))
    for column in range(3):
        judged = truth[:, column] != 0
        oracle = LinearSVC(C=2.0, tol=1e-10, max_iter=100_000).fit(X[judged], truth[judged, column])
        np.testing.assert_allclose(classifier.coef_[column], oracle.coef_[0], atol=1e-4)


@pytest.mark.parametrize("n_images", [60, 1500])
def test_difficult_images_do_not_influence_the_choice_of_C(n_images):
    """Neither where SVMs see inner products, nor where they see vectors."""
    rng = np.random.default_rng(3)
    truth = rng.choice([-1, 0, 1], (n_images, 2), p=[0.4, 0.3, 0.3])
    X = rng.standard_normal((n_images, 8)) + np.where(truth[:, :1] > 0, 1.0, 0.0)
    one, other = X.copy(), X.copy()
    both = (truth == 0).all(axis=1)
    assert both.any()
    other[both] = 1e3 * rng.standard_normal((both.sum(), 8))
    fits = [
        LinearClassifier(device="cpu", random_state=0).fit(rows, labels_of(truth)) for rows in (one, other)
    ]
    np.testing.assert_allclose(fits[0].cv_scores_, fits[1].cv_scores_)
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-6)


def test_truth_gives_labels_that_are_undecided_where_difficult():
    truth = VocTruth(
        ["a", "b", "c"], ("cat", "cow", "dog"), np.array([[1, -1, 0], [-1, -1, 1], [1, 1, 1]]), False
    )
    labels = truth.labels([0, 1])
    assert labels.classes.tolist() == ["cat", "dog"]  # no training image shows a cow
    np.testing.assert_array_equal(labels.membership, [[True, True], [False, True]])
    np.testing.assert_array_equal(labels.undecided, [[False, True], [False, False]])
    assert not labels.single


def test_a_complete_folder_has_no_problems_and_those_of_an_incomplete_one_are_named(tree, tmp_path):
    root, truth, subsets = tree
    lists = {name: len(ids) for name, ids in subsets.items()}
    labels = np.array([truth[key] for key in subsets["trainval"]])
    shown = {name: int((labels[:, column] == 1).sum()) for column, name in enumerate(CLASSES)}
    assert check_voc(tmp_path, lists, shown) == []
    (root / "JPEGImages" / f"{subsets['val'][0]}.jpg").unlink()
    (root / "JPEGImages" / f"{subsets['val'][1]}.jpg").write_bytes(b"")
    (problem,) = check_voc(root, {"val": 20}, shown)
    assert problem == f"2 image(s) of val.txt are missing or empty, for example {subsets['val'][0]}.jpg."
    assert check_voc(root, {"train": 21}, shown) == ["train.txt lists 20 images; expected 21."]
    more = {**shown, "car": shown["car"] + 1}
    assert f"{shown['car']} images of trainval show 'car'; expected {more['car']}." in check_voc(
        root, {"trainval": 40}, more
    )
    for name in CLASSES:
        (root / "ImageSets" / "Main" / f"{name}_train.txt").unlink()
    assert "label files of train are missing" in check_voc(root, {"train": 20}, shown)[0]
    (root / "ImageSets" / "Main" / "test.txt").unlink()  # distributed separately
    assert check_voc(root, {"test": 5}, shown) == []
    (root / "ImageSets" / "Main" / "val.txt").unlink()
    assert "val.txt cannot be opened" in check_voc(root, {"val": 20}, shown)[0]
    assert "is not VOC2012" in check_voc(tmp_path / "elsewhere", lists, shown)[0]


def test_a_classifier_trains_on_the_lists_and_its_scores_are_submitted(tmp_path):
    images, labels = tiny_scenes(n_per_class=4)
    names = sorted(set(labels))
    ids = [f"{number:04}" for number in range(len(images))]
    truth = {key: [1 if label == name else -1 for name in names] for key, label in zip(ids, labels)}
    truth[ids[0]][names.index(labels[-1])] = 1  # two labels
    truth[ids[1]][names.index(labels[-1])] = 0  # and a difficult one
    write_voc(tmp_path, truth, names, {"train": ids[::2], "val": ids[1::2]})
    for key, image in zip(ids, images):
        Image.fromarray(image).convert("RGB").save(tmp_path / "JPEGImages" / f"{key}.jpg")
    train, val = (read_voc(tmp_path, subset, names) for subset in ("train", "val"))
    truth_of_train = VocTruth(train.ids, train.classes, train.truth, secret=False)
    model = SceneClassifier(changes=TINY, device="cpu", random_state=0)
    for y in (train.training_labels, truth_of_train.labels(range(len(train)))):
        model.fit(train.paths, y)
        assert list(model.classes_) == names
        assert model.multilabel_
        given = model.decision_function(val.paths)
        files = write_results(tmp_path, val.ids, names, given, subset="val")
        measured = score_voc(val.truth, given, names)["average_precision"]
        for name, file in zip(names, files):
            expected = voc_evaluate(tmp_path / "ImageSets" / "Main" / f"{name}_val.txt", file)
            assert measured[name] == pytest.approx(expected)


def test_the_classes_are_the_twenty_in_alphabetical_order():
    assert len(VOC_CLASSES) == 20
    assert list(VOC_CLASSES) == sorted(VOC_CLASSES)
