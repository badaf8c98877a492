import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from ddsfl.classify.metrics import average_precision, mean_average_precision, mean_class_accuracy
from tests.oracles.classify import voc_average_precision


def test_mean_class_accuracy_is_the_mean_over_true_classes():
    rng = np.random.default_rng(0)
    names = np.array(["wood", "sea", "city", "été"])
    true, predicted = names[rng.integers(0, 3, 41)], names[rng.integers(0, 4, 41)]
    expected = np.mean([np.mean(predicted[true == name] == name) for name in names[:3]])
    assert mean_class_accuracy(true, predicted) == pytest.approx(expected)


def test_a_label_that_never_was_true_is_no_class(recwarn):
    assert mean_class_accuracy(["sea", "city"], ["sea", "wood"]) == 0.5
    assert len(recwarn) == 0


def test_bad_labels_are_named():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        mean_class_accuracy([1, 2], [1])


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_equals_the_devkit(seed):
    rng = np.random.default_rng(seed)
    truth, scores = rng.integers(-1, 2, 37), rng.standard_normal(37)
    ours = average_precision(truth > 0, scores, ignore=truth == 0)
    assert ours == pytest.approx(voc_average_precision(truth, scores), abs=1e-12)


def test_average_precision_is_the_envelope_of_scikit_learns_curve():
    rng = np.random.default_rng(7)
    relevant, scores = rng.integers(0, 2, 50), rng.integers(0, 9, 50)  # with many ties
    precision, recall, _ = reference.precision_recall_curve(relevant, scores)
    envelope = np.maximum.accumulate(precision[:-1])
    expected = np.sum(-np.diff(recall) * envelope)
    assert average_precision(relevant, scores) == pytest.approx(expected)
    assert average_precision(relevant, scores) >= reference.average_precision_score(relevant, scores)


def test_order_of_equal_scores_does_not_matter():
    assert average_precision([1, 0, 0, 0], np.zeros(4)) == 0.25
    assert average_precision([0, 0, 0, 1], np.zeros(4)) == 0.25


def test_mean_average_precision_skips_classes_without_images():
    relevant = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 1]])
    scores = torch.tensor([[0.9, 0.1, 0.3], [0.8, 0.2, 0.2], [0.7, 0.3, 0.1]])
    each = [average_precision(relevant[:, c], scores[:, c]) for c in (0, 2)]
    assert mean_average_precision(relevant, scores) == pytest.approx(np.mean(each))
    ignore = relevant == 0  # then no wrong images remain
    assert mean_average_precision(relevant, scores, ignore=ignore) == 1
    assert np.isnan(mean_average_precision(np.zeros((2, 1)), np.zeros((2, 1))))
    assert np.isnan(average_precision([0, 0], [1, 2]))


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match=r"\(3,\) and \(2,\)"):
        average_precision([1, 0, 1], [1, 2])
    with pytest.raises(ValueError, match=r"\(images, classes\)"):
        mean_average_precision([1, 0], [1, 0])
    with pytest.raises(ValueError, match=r"ignore has shape \(2,\); expected that of relevant, \(3,\)"):
        average_precision([1, 0, 1], [1, 2, 3], ignore=[0, 1])
    with pytest.raises(ValueError, match=r"ignore has shape \(1, 2\)"):  # would shorten the mean silently
        mean_average_precision(np.ones((2, 2)), np.ones((2, 2)), ignore=[[0, 0]])


def test_ignored_images_of_one_class_still_count_for_the_others():
    truth = np.array([[1, -1], [0, 1], [-1, 1]])
    scores = np.array([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]])
    each = [voc_average_precision(truth[:, c], scores[:, c]) for c in (0, 1)]
    assert mean_average_precision(truth > 0, scores, ignore=truth == 0) == pytest.approx(np.mean(each))
