import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from ddsfl.classify.calibration import Calibration, fit_sigmoids, fit_temperature


@pytest.mark.parametrize("classes", [2, 4])
def test_the_slope_is_the_likeliest_one(classes):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, 67)
    decisions = rng.standard_normal((67, 1 if classes == 2 else classes))
    decisions += 0.7 * (y[:, None] * 2 - 1 if classes == 2 else np.eye(classes)[y])
    logits = np.hstack([np.zeros((67, 1)), decisions]) if classes == 2 else decisions
    wanted = (67 * np.eye(classes)[y] + 1) / (67 + classes)

    def loss(log_slope):
        return -(wanted * log_softmax(np.exp(log_slope[0]) * logits, axis=1)).sum()

    expected = np.exp(minimize(loss, [0.0], tol=1e-10).x[0])
    calibration = fit_temperature(torch.from_numpy(decisions), torch.from_numpy(y))
    np.testing.assert_allclose(calibration.slopes, expected, rtol=1e-4)
    assert not calibration.offsets.any()


def test_separated_images_do_not_ask_for_an_infinite_slope():
    decisions = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]], dtype=torch.float64)
    calibration = fit_temperature(decisions, torch.tensor([1, 1, 0, 0]))
    likeliest = calibration.probabilities(decisions, single=True).amax(dim=1)
    torch.testing.assert_close(likeliest, torch.full((4,), 5 / 6, dtype=torch.float64))


def test_sigmoids_are_the_likeliest_ones():
    rng = np.random.default_rng(1)
    membership = rng.random((83, 3)) < [0.1, 0.5, 0.8]
    decisions = rng.standard_normal((83, 3)) * [0.1, 1, 10] + membership
    calibration = fit_sigmoids(torch.from_numpy(decisions), torch.from_numpy(membership))
    for c in range(3):
        positive = membership[:, c].sum()
        high, low = (positive + 1) / (positive + 2), 1 / (83 - positive + 2)
        wanted = np.where(membership[:, c], high, low)

        def loss(ab, c=c, wanted=wanted):
            p = expit(ab[0] * decisions[:, c] + ab[1])
            return -(wanted * np.log(p) + (1 - wanted) * np.log(1 - p)).sum()

        expected = minimize(loss, [0.0, 0.0], tol=1e-10).x
        got = [float(calibration.slopes[c]), float(calibration.offsets[c])]
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_sigmoids_survive_separated_and_absent_classes():
    decisions = torch.tensor([[-50.0, 1.0], [50.0, 2.0], [60.0, 3.0]], dtype=torch.float64)
    membership = torch.tensor([[False, False], [True, False], [True, False]])
    calibration = fit_sigmoids(decisions, membership)
    probabilities = calibration.probabilities(decisions, single=False)
    assert torch.isfinite(probabilities).all()
    assert probabilities[1, 0] > 0.7 > 0.4 > probabilities[0, 0]
    torch.testing.assert_close(probabilities[:, 1], torch.full((3,), 0.2, dtype=torch.float64))


def test_probabilities_of_single_labels_sum_to_one():
    decisions = torch.from_numpy(np.random.default_rng(2).standard_normal((9, 4)))
    sure = Calibration(torch.full((4,), 3.0), torch.zeros(4))
    torch.testing.assert_close(
        sure.probabilities(decisions, single=True).sum(dim=1), torch.ones(9, dtype=torch.float64)
    )
    torch.testing.assert_close(sure.probabilities(decisions, single=False), torch.sigmoid(3 * decisions))
