"""Maps as pictures: sums, limits, thresholds, colours and contours."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from ddsfl.explain.masks import smoothed
from ddsfl.report.pages.heat import (
    AGAINST,
    FAINTEST,
    FOR,
    STEPS,
    contour_paths,
    draw_legend,
    draw_tint,
    shared_limit,
    tint_png,
    tint_steps,
)
from ddsfl.report.pages.why_image import legend_numbers
from tests.support.explained_images import blobs


def rgba(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA")).astype(int)


@pytest.mark.parametrize("shape", [(7, 300), (61, 45), (1, 1)])
def test_smoothing_keeps_the_sum_even_at_the_borders(shape):
    heat = np.zeros(shape)
    heat[0, 0], heat[-1, -1] = 3.0, -1.25
    heat[shape[0] // 2] += 0.01
    np.testing.assert_allclose(smoothed(heat).sum(), heat.sum(), atol=1e-12)


def test_the_blur_is_4_pixels_of_a_picture_of_300():
    heat = np.zeros((201, 300))
    heat[100, 150] = 1.0
    row = smoothed(heat).sum(axis=0)
    spread = np.sqrt((row * (np.arange(300) - 150) ** 2).sum())
    assert spread == pytest.approx(4, rel=0.01)


def test_the_limit_is_the_largest_quantile_of_magnitudes():
    quiet, loud = np.linspace(0, 1, 101)[None], np.linspace(0, -2, 101)[None]
    assert shared_limit([quiet]) == pytest.approx(0.99)
    assert shared_limit([quiet, loud]) == pytest.approx(1.98)
    assert shared_limit([np.zeros((3, 3))]) == 0
    assert shared_limit([-5.0 * np.eye(1, 200)]) == 5  # a single pixel


def test_only_what_is_above_a_quarter_of_the_limit_is_tinted():
    values = np.array([-9, -1, -0.2501, -0.25, -0.1, 0, 0.1, 0.25, 0.2501, 1, 9])
    steps = tint_steps(2.0 * values, limit=2.0)
    assert np.flatnonzero(steps).tolist() == [0, 1, 2, 8, 9, 10]
    assert (np.sign(steps) * np.sign(values) >= 0).all()
    assert steps[[0, 1, 9, 10]].tolist() == [-STEPS, -STEPS, STEPS, STEPS]


def test_tints_are_orange_for_and_blue_against_and_grow_opaque():
    pixels = rgba(tint_png(np.array([[-STEPS, -1, 0, 1, STEPS]])))[0]
    np.testing.assert_array_equal(pixels[[0, 4], :3], [AGAINST[1], FOR[1]])
    assert pixels[0, 2] > pixels[0, 0] + 100  # blue
    assert pixels[4, 0] > pixels[4, 2] + 100  # orange
    opacity = pixels[:, 3]
    assert opacity[2] == 0
    assert opacity[0] == opacity[4] > 200 > opacity[1] == opacity[3] > 0


def test_a_large_map_is_reduced_without_moving():
    heat = np.zeros((500, 1000))
    heat[:250, 500:] = 1.0
    opacity = rgba(draw_tint(heat, 1.0))[..., 3]
    height, width = opacity.shape
    assert (height, width) == (100, 200)
    assert (opacity[:50, 100:] > 0).all()
    assert opacity[50:].max() == opacity[:, :100].max() == 0


def test_a_map_of_zeros_is_transparent():
    assert not tint_steps(np.ones((2, 2)), 0.0).any()
    assert rgba(draw_tint(np.zeros((9, 9)), 0.0))[..., 3].max() == 0
    assert contour_paths(np.zeros((9, 9)), 0.0) == ("", "")


def test_the_legend_runs_from_against_to_for_and_is_clear_in_its_middle():
    [row] = rgba(draw_legend())
    np.testing.assert_array_equal(row[[0, -1], :3], [AGAINST[1], FOR[1]])
    clear = row[:, 3] == 0
    assert clear.mean() == pytest.approx(FAINTEST, abs=0.01)
    assert clear[len(clear) // 2]


def test_the_numbers_of_the_legend_are_contributions_of_a_hundredth_of_the_area():
    # A map of 0.002 everywhere: 1 % of 40 x 50 pixels are 20 pixels.
    numbers = [number.replace("\N{MINUS SIGN}", "-") for number in legend_numbers(0.002, 40, 50)]
    assert numbers == ["-0.040", "-0.010", "+0.010", "+0.040"]


def test_contours_surround_what_is_tinted():
    heat = blobs((30, 60, 1.0), (70, 20, -1.0))
    paths = contour_paths(heat, limit=0.9 * heat.max())
    for path, (row, column) in zip(paths, [(30, 60), (70, 20)]):
        outer = max(path.split("M"), key=len)
        numbers = np.array(re.findall(r"-?[\d.]+", outer), float).reshape(-1, 2)
        x, y = np.cumsum(numbers, axis=0).T
        assert x.min() < column < x.max()
        assert y.min() < row < y.max()
        assert (
            np.hypot(x - column - 0.5, y - row - 0.5).std() < 0.3
        )  # a circle around the middle of its pixel
    assert paths[0].count("M") == 3


def test_contours_of_a_large_map_are_in_its_own_pixels():
    small, large = blobs((30, 60, 1.0)), np.kron(blobs((30, 60, 1.0)), np.ones((5, 5)))
    ends = [
        np.array(re.findall(r"M([\d.]+) ([\d.]+)", contour_paths(heat, heat.max() * 0.9)[0]), float)
        for heat in (small, large)
    ]
    np.testing.assert_allclose(5 * ends[0], ends[1], atol=0.5)
