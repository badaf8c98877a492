"""The page of promised and reached speeds says what the stored measurements say."""

import json

import pytest
from benchmarks import goals
from benchmarks.goals import GOALS, Goal, draw, page, record, table

DOCS = goals.ROOT / "docs"


def stored():
    return json.loads(goals.RESULTS.read_text())


def test_the_page_in_the_docs_is_drawn_from_the_stored_measurements():
    assert goals.PAGE.read_text() == page(stored())


def test_stored_measurements_are_of_goals_and_know_their_commit_and_machine():
    assert set(stored()) <= {goal.key for goal in GOALS}
    assert all(cell["commit"] and cell["machine"] and cell["value"] > 0 for cell in stored().values())


@pytest.mark.parametrize(
    ("unit", "value", "reached"),
    [
        ("s", 3, True),
        ("s", 5, False),
        ("times as long", 5, False),
        ("%", 3, False),
        ("times faster", 4, True),
    ],
)
def test_seconds_are_better_when_lower_and_shares_when_higher(unit, value, reached):
    assert Goal("key", "what", "9", 4, 2, unit, "module").is_reached(value) == reached


def test_a_missed_goal_and_a_missing_measurement_are_said(monkeypatch):
    monkeypatch.setattr(goals, "GOALS", (Goal("a", "one", "9 s", 4, 2, "s", "m"), GOALS[-1]))
    shown = table({"a": {"value": 4.2, "commit": "abc", "machine": "x"}})
    assert "| one | 9 s | 4.0 s | 2.0 s | 4.2 s (not reached) | abc | `m` |" in shown
    assert "not measured" in shown


def test_measurements_of_another_machine_are_merged(tmp_path, monkeypatch):
    results, there, drawn = (tmp_path / name for name in ("here.json", "there.json", "page.md"))
    monkeypatch.setattr(goals, "RESULTS", results)
    monkeypatch.setattr(goals, "PAGE", drawn)
    record("words", 6.0, results)
    record("best", 12.0, there)
    assert "12.0 s" in draw([there])
    assert set(json.loads(results.read_text())) == {"words", "best"}
    assert drawn.read_text() == page(json.loads(results.read_text()))
    with pytest.raises(AssertionError):
        record("unknown", 1.0, results)
