import re
import sys

import pytest

from ddsfl.report import console as module
from ddsfl.report.console import Console, describe_stage


@pytest.fixture
def clock(monkeypatch):
    """A clock that changes only when a test sets it."""
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


class Bar:
    """Replaces tqdm; records its arguments and updates."""

    made = ()

    def __init__(self, total, **options):
        self.total, self.options, self.n, self.closed = total, options, 0, False
        Bar.made = (*Bar.made, self)

    def update(self, count):
        self.n += count

    def close(self):
        self.closed = True


@pytest.fixture
def bars(monkeypatch):
    monkeypatch.setattr(Bar, "made", ())
    monkeypatch.setattr(module, "tqdm", Bar)
    return lambda: list(Bar.made)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("layer1.space", "layer 1: principal axes"),
        ("layer12.exemplars", "layer 12: exemplars"),
        ("layer2.bank", "layer 2: filter bank"),
        ("sift.words", "sift: words"),
        ("layer1.vectors3", "layer 1: vectors, part 3"),
        ("sift.vectors2", "sift: vectors, part 2"),
        ("alexnet.vectors1", "alexnet: vectors, part 1"),
        ("centrist.source", "centrist: principal axes"),
        ("classifier", "classifier"),
        ("layer2.bank.more", "layer2.bank.more"),
        ("my layer2.bank", "my layer2.bank"),
    ],
)
def test_stages_have_names_for_people(name, words):
    assert describe_stage(name) == words


def test_lines_go_to_standard_error(capsys):
    Console().say("Hello.")
    captured = capsys.readouterr()
    assert captured.err == "Hello.\n"
    assert captured.out == ""


def test_a_stage_ends_with_its_time(capsys, clock):
    console = Console(prefix="split 2, ")
    console.stage("layer1.bank", found=False)
    assert capsys.readouterr().err == ""  # not a terminal: no line that is overwritten later
    clock[0] += 2.34
    console.close()
    console.close()
    assert capsys.readouterr().err == "split 2, layer 1: filter bank: 2.3 s\n"


@pytest.mark.parametrize("following", ["stage", "begin", "say", "warn"])
def test_whatever_follows_ends_the_stage_first(capsys, clock, following):
    console = Console()
    console.stage("classifier", found=False)
    clock[0] += 1
    {
        "stage": lambda: console.stage("sift.vectors1", found=True),
        "begin": lambda: console.begin("reading"),
        "say": lambda: console.say("Done."),
        "warn": lambda: console.warn(["a.jpg is not an image"]),
    }[following]()
    lines = {
        "stage": ["sift: vectors, part 1: reused from an earlier run"],
        "begin": [],
        "say": ["Done."],
        "warn": ["  - a.jpg is not an image"],
    }
    assert capsys.readouterr().err.splitlines() == ["classifier: 1.0 s", *lines[following]]


def test_a_reused_stage_has_no_time_and_no_bar(capsys, bars):
    console = Console()
    console.stage("layer2.space", found=True)
    console.progress(1, 5)
    console.close()
    assert capsys.readouterr().err == "layer 2: principal axes: reused from an earlier run\n"
    assert bars() == []


def test_a_terminal_shows_the_stage_at_once(capsys, monkeypatch, clock):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    console = Console()
    console.begin("reading")
    assert capsys.readouterr().err == "reading ...\r"
    clock[0] += 0.5
    console.close()
    assert capsys.readouterr().err == "reading: 0.5 s\n"


def test_quiet_prints_only_problems(capsys, bars):
    console = Console(quiet=True)
    console.say("Hello.")
    console.stage("layer1.bank", found=True)
    console.stage("layer1.bank", found=False)
    console.begin("reading")
    console.progress(1, 2)
    console.warn(["first", "second"])
    console.close()
    assert capsys.readouterr().err == "  - first\n  - second\n"
    assert bars() == []


def test_all_problems_are_named(capsys):
    Console().warn(iter(range(1500)))
    assert capsys.readouterr().err.splitlines() == [f"  - {number}" for number in range(1500)]


@pytest.mark.parametrize(("terminal", "seconds"), [(True, 0.2), (False, 30)])
def test_the_bar_shows_the_given_progress(capsys, monkeypatch, bars, terminal, seconds):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    console = Console(prefix="split 1, ")
    console.begin("reading")
    for done in (2, 3, 7):
        console.progress(done, 9)
        assert bars()[-1].n == done
    (bar,) = bars()
    assert (bar.total, bar.closed) == (9, False)
    assert bar.options["desc"] == "split 1, reading"
    assert bar.options["mininterval"] == seconds
    assert bar.options["file"] is sys.stderr
    assert bar.options["leave"] is False  # replaced by the line with the time
    console.close()
    assert bar.closed


def test_a_pass_of_another_length_has_its_own_bar(bars):
    console = Console()
    console.stage("layer1.bank", found=False)
    console.progress(4, 5)
    console.progress(1, 8)
    first, second = bars()
    assert (first.total, first.n, first.closed) == (5, 4, True)
    assert (second.total, second.n, second.closed) == (8, 1, False)
    console.stage("classifier", found=False)
    assert second.closed
    console.progress(1, 8)
    assert len(bars()) == 3


def test_progress_outside_of_a_stage_is_not_shown(capsys, bars):
    console = Console()
    console.progress(1, 2)
    assert bars() == []
    assert capsys.readouterr().err == ""


def test_the_real_bar_works(capsys):
    console = Console()
    console.begin("reading")
    for done in range(1, 4):
        console.progress(done, 3)
    console.close()
    assert re.search(r"reading: \d+\.\d s\n$", capsys.readouterr().err)


def test_an_abandoned_stage_has_no_time_and_no_bar(capsys, monkeypatch, bars):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    console = Console()
    console.begin("reading")
    Console.break_off()
    Console.break_off()
    console.close()
    assert capsys.readouterr().err == "reading ...\r\n"
    console.begin("reading")
    console.progress(1, 5)
    capsys.readouterr()
    Console.break_off()
    console.close()
    assert bars()[-1].closed
    assert capsys.readouterr().err == ""


def test_a_silent_console_does_not_change_whether_the_command_resumes():
    Console(resumes=True)
    assert Console.silent().quiet
    assert Console.break_off()
    Console()
    Console.silent()
    assert not Console.break_off()
