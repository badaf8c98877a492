"""The page of what was measured on many images says what the stored cells say."""

import copy
from pathlib import Path

import pytest
from benchmarks.million import duration, growth, page, read, table

DOCS = Path(__file__).parents[1] / "docs"
NAMES = ("many-images", "shards", "shard-kills")


@pytest.fixture(scope="module")
def cells():
    return {name: read(name) for name in NAMES}


def test_the_page_in_the_docs_is_drawn_from_the_stored_cells(cells):
    assert (DOCS / "many-images-measured.md").read_text() == page(*(cells[name] for name in NAMES))
    assert (DOCS / "many-images-memory.png").exists()


def test_stored_figures_are_those_that_are_required(cells):
    peaks = {(cell["command"], cell["images"]): cell["peak_mb"] for cell in cells["many-images"]}
    for command in ("train", "encode"):
        assert peaks[command, 100_000] <= 1.5 * peaks[command, 10_000]
    rounds = [cell for cell in cells["shards"]["cells"] if "plain" in cell]
    assert cells["shards"]["images"] >= 2000
    assert len(rounds) >= 3
    assert all(cell["ray"]["seconds"] <= 1.15 * cell["plain"]["seconds"] for cell in rounds)
    assert all(cell["median_ms"] <= 10 for cell in cells["shards"]["cells"] if "median_ms" in cell)
    assert {cell["outcome"] for cell in cells["shard-kills"]["cells"]} <= {
        "complete",
        "complete after a rerun",
        "one sentence, then complete",
        "refused, then complete",
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_cell_changes_the_page(cells, name):
    changed = copy.deepcopy(cells)
    if name == "many-images":
        changed[name][-1]["seconds"] *= 2
    elif name == "shards":
        changed[name]["cells"][-1]["ray"]["seconds"] *= 2
    else:
        changed[name]["cells"][0]["outcome"] = "WRONG"
    pages = [page(*(found[name] for name in NAMES)) for found in (cells, changed)]
    assert pages[0] != pages[1]
    if name == "shard-kills":
        assert pages[1].rstrip().endswith("cases, 1 wrong.")


def test_growth_is_the_exponent_between_the_last_two_numbers_of_images():
    train = [
        {"images": images, "seconds": 100.0, "stages": {"vectors": seconds, "words": 0.05}}
        for images, seconds in ((10, 1.0), (100, 5.0), (1000, 50.0))
    ]
    assert growth(train, "vectors") == pytest.approx(1.0)
    assert growth(train[:2], "vectors") == pytest.approx(0.69897)
    assert growth(train, "words") == 1.0  # too short to tell
    assert growth(train, "read and check") == 0.0  # it became shorter


def test_tables_and_times():
    assert table(["a", "b"], [["1", "2"]]).splitlines() == ["| a | b |", "|---|---|", "| 1 | 2 |"]
    assert [duration(seconds) for seconds in (0.123, 60, 600, 8000)] == ["0.12 s", "60 s", "10 min", "2.2 h"]
