"""How far a pass is, in words, with the rate where it is asked for."""

import pytest

from ddsfl.report.progress import Pass


@pytest.mark.parametrize(
    ("done", "now", "words"),
    [
        (0, 12.0, "0 of 1000 images, 0 %"),
        (400, 12.0, "400 of 1000 images, 40 %, 200 images/s, 3 s left"),
        (5, 12.0, "5 of 1000 images, 0 %, 2.5 images/s, 7 min left"),
        (1, 70.0, "1 of 1000 images, 0 %, 0.02 images/s, 16 h left"),
        (400, 10.0, "400 of 1000 images, 40 %, 0 s left"),  # no time has passed
    ],
)
def test_the_rate_counts_from_the_first_report(done, now, words):
    reading = Pass("images", now=10.0, done=0, total=1000, rate=True)
    reading.advance(done, now=now)
    assert reading.words(now=now) == words


def test_a_pass_that_resumes_has_the_rate_of_its_own_work():
    reading = Pass("images", now=0.0, done=500, total=1000, rate=True)
    reading.advance(600, now=10.0)
    assert reading.words(now=10.0) == "600 of 1000 images, 60 %, 10.0 images/s, 40 s left"
    assert reading.words(now=10.0, short=True) == "60 %, 40 s left"
