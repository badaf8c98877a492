import re
import sys
import threading
import time

import pytest
from rich.table import Table
from rich.text import Text

from ddsfl.report import console as module
from ddsfl.report.console import Console, describe_stage, quiet_for_data, show_fitting
from ddsfl.report.progress import Ticker


@pytest.fixture
def clock(monkeypatch):
    """A clock that changes only when a test sets it."""
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(module, "_is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(autouse=True)
def still(monkeypatch):
    """No thread: tests that look at single lines draw them themselves."""
    monkeypatch.setattr(module, "Ticker", NoTicker)


class NoTicker:
    def __init__(self, method, seconds):
        self.seconds = seconds

    def stop(self):
        pass


def line_of(captured):
    """The running line as it stands on the terminal."""
    shown = captured.err.split("\r")
    assert shown[-1] == ""  # the cursor is in the first column
    return shown[-2].rstrip()


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


def test_a_reused_stage_has_no_time_and_no_progress(capsys):
    console = Console()
    console.stage("layer2.space", found=True)
    console.progress(1, 5)
    console.close()
    assert capsys.readouterr().err == "layer 2: principal axes: reused from an earlier run\n"


def test_a_terminal_shows_the_stage_at_once_and_then_a_running_clock(capsys, terminal, clock):
    console = Console()
    console.begin("reading")
    assert capsys.readouterr().err == "| reading ...\r"
    signs = set()
    for seconds in (1, 61, 7000):
        clock[0] = 100 + seconds
        console._tick()
        sign, line = line_of(capsys.readouterr()).split(" ", 1)
        signs.add(sign)
        assert line == f"reading: { {1: '1 s', 61: '1 min', 7000: '1 h 57 min'}[seconds] } so far"
    assert len(signs) == 3
    console.close()
    assert re.fullmatch(r" +\rreading: 7000\.0 s\n", capsys.readouterr().err)


def test_a_terminal_shows_progress_and_the_time_left(capsys, terminal, clock):
    console = Console(prefix="split 1, ")
    console.stage("layer1.vectors2", found=False)
    console.progress(500, 1500)  # a second part begins in the middle
    clock[0] += 10
    console.progress(600, 1500)
    clock[0] += 5
    capsys.readouterr()
    console._tick()
    words = "split 1, layer 1: vectors, part 2: 600 of 1500 images, 40 %, 1 min left"  # 90 s - 5 s
    assert line_of(capsys.readouterr()) == f"/ {words}"
    console.progress(1500, 1500)
    console._tick()  # the pass is complete, the stage is not
    assert line_of(capsys.readouterr()) == "- split 1, layer 1: vectors, part 2: 15 s so far"


def test_a_note_and_the_rate_in_the_middle_of_a_stage(capsys, terminal, clock):
    console = Console()
    console.begin("predict", rate=True)
    console.progress(0, 1500)
    clock[0] += 10
    console.progress(600, 1500)
    console.note("one moment")
    shown = capsys.readouterr().err
    assert re.search(r" +\rone moment\n$", shown)
    console._tick()
    words = "predict: 600 of 1500 images, 40 %, 60 images/s, 15 s left"
    assert line_of(capsys.readouterr()) == f"/ {words}"
    Console(quiet=True).note("nothing")
    console.close()
    assert "nothing" not in capsys.readouterr().err


def test_the_running_line_fits_a_narrow_terminal(capsys, terminal, clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    console = Console()
    console.begin("layer1.vectors1")
    console.progress(0, 1500)
    clock[0] += 10
    console.progress(150, 1500)
    console._tick()
    assert line_of(capsys.readouterr()) == "/ layer 1: vectors, p: 10 %, 2 min left"  # the name is cut off


def test_a_log_has_no_bar_and_few_lines(capsys, clock):
    console = Console()
    console.begin("layer1.vectors1")
    for second in range(1, 101):
        clock[0] = 100 + second
        console.progress(second, 1000)
        console._tick()
    assert capsys.readouterr().err.splitlines() == [
        f"layer 1: vectors, part 1: {done} of 1000 images, {done // 10} %, {left} left"
        for done, left in ((30, "16 min"), (60, "16 min"), (90, "15 min"))
    ]
    for second in range(101, 36_001):
        clock[0] = 100 + second
        console._tick()
    lines = capsys.readouterr().err.splitlines()
    assert 50 < len(lines) < 200  # ten hours
    console.close()
    assert capsys.readouterr().err == "layer 1: vectors, part 1: 36000.0 s\n"


def test_a_log_names_a_stage_without_progress_after_half_a_minute(capsys, clock):
    console = Console()
    console.begin("layer1.bank")
    for seconds in (1, 29.9, 30.1, 40, 61):
        clock[0] = 100 + seconds
        console._tick()
    lines = [f"layer 1: filter bank: {time} so far" for time in ("30 s", "1 min")]
    assert capsys.readouterr().err.splitlines() == lines


def test_units_other_than_images(capsys, terminal, clock):
    console = Console()
    console.begin("set.zip", unit="MiB")
    console.progress(3, 12)
    console._tick()
    assert line_of(capsys.readouterr()) == "/ set.zip: 3 of 12 MiB, 25 %"


def test_iterations_follow_images_in_one_stage(capsys, terminal, clock):
    console = Console()
    console.begin("layer1.words", rate=True)
    console.progress(2, 15)
    console.steps(3, 15)
    clock[0] += 2
    console.steps(6, 15)
    console._tick()
    assert line_of(capsys.readouterr()) == "/ layer 1: words: 6 of 15 steps, 40 %, 6 s left"
    console.steps(1, 15)  # another loop
    console._tick()
    assert line_of(capsys.readouterr()).startswith("- layer 1: words: 1 of 15 steps, 6 %")


def test_quiet_prints_only_problems(capsys):
    console = Console(quiet=True)
    console.say("Hello.")
    console.stage("layer1.bank", found=True)
    console.stage("layer1.bank", found=False)
    console.begin("reading")
    console.progress(1, 2)
    console.warn(["first", "second"])
    console.close()
    assert capsys.readouterr().err == "  - first\n  - second\n"


def test_all_problems_are_named(capsys):
    Console().warn(iter(range(1500)))
    assert capsys.readouterr().err.splitlines() == [f"  - {number}" for number in range(1500)]


def test_progress_outside_of_a_stage_is_not_shown(capsys):
    console = Console()
    console.progress(1, 2)
    console.close()
    assert capsys.readouterr().err == ""


def test_an_abandoned_stage_has_no_time_and_no_line(capsys, terminal):
    console = Console()
    console.begin("reading")
    console.progress(1, 5)
    Console.break_off()
    Console.break_off()
    console.close()
    assert line_of(capsys.readouterr()) == ""


def test_a_silent_console_does_not_change_whether_the_command_resumes():
    first = Console(resumes=True)
    assert Console.silent().quiet
    assert Console.resumable() == first.resumes
    second = Console()
    Console.silent()
    assert Console.resumable() == second.resumes


def progress_threads():
    return [thread for thread in threading.enumerate() if thread.name == "ddsfl progress"]


@pytest.mark.parametrize("end", ["close", "break_off", "forgotten"])
def test_the_clock_runs_by_itself_and_leaves_no_thread_behind(capsys, monkeypatch, terminal, end):
    monkeypatch.setattr(module, "Ticker", Ticker)
    monkeypatch.setattr(module, "_REDRAW", 0.01)
    console = Console()
    console.begin("reading")
    until = time.monotonic() + 5
    while "so far" not in capsys.readouterr().err:
        assert time.monotonic() < until
        time.sleep(0.01)
    [thread] = progress_threads()
    assert thread.daemon
    if end == "forgotten":  # as after an error in somebody's program
        del console
        thread.join(timeout=5)
    else:
        getattr(console, end)()
    assert not progress_threads()


def test_the_widest_form_that_fits_is_shown(capsys, terminal, monkeypatch):
    def forms():
        for width in (90, 30, 10):
            table = Table("name")
            table.add_row(Text("x" * width))
            yield table

    for columns, width in ((100, 90), (60, 30), (20, 10)):
        monkeypatch.setenv("COLUMNS", str(columns))
        show_fitting(forms())
        assert f" {'x' * width} " in capsys.readouterr().out
    monkeypatch.setattr(module, "_is_terminal", lambda stream: False)
    show_fitting(forms())
    assert "x" * 90 in capsys.readouterr().out


def test_a_passing_line_leaves_no_trace(capsys, terminal):
    with Console().passing("starting"):
        assert line_of(capsys.readouterr()) == "| starting ..."
    assert capsys.readouterr().err.strip(" ") == "\r"


@pytest.mark.parametrize(("screens", "quiet"), [("out err", True), ("out", True), ("err", False), ("", True)])
def test_progress_beside_data_is_for_people_who_do_not_see_the_data(monkeypatch, screens, quiet):
    names = {sys.stdout: "out", sys.stderr: "err"}
    monkeypatch.setattr(module, "_is_terminal", lambda stream: names[stream] in screens.split())
    assert quiet_for_data() is quiet
