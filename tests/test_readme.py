"""All commands and programs in the README are run here as printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny import write_scenes

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands(start):
    lines = [line.split("  #")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith(start)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder: photos of four classes, one of them called beach."""
    folder = tmp_path_factory.mktemp("user")
    write_scenes(folder / "photos", n_per_class=5, classes=4)
    first = sorted((folder / "photos").iterdir())[0]
    first.rename(folder / "photos" / "beach")
    return folder


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_commands_run_in_order_as_printed(folder):
    printed = commands("ddsfl ")
    assert [command.split()[1] for command in printed] == [
        "check",
        "train",
        "predict",
        "explain",
        "evaluate",
        "encode",
        "inspect",
    ]
    for command in printed:
        run([sys.executable, "-m", *shlex.split(command)], folder)
    for name in (
        "scenes.safetensors",
        "why.html",
        "report.html",
        "vectors.npz",
        "scenes-pictures/layer1-filters.png",
    ):
        assert (folder / name).exists()


@pytest.mark.slow
def test_the_program_runs_as_printed(folder):
    (program,) = blocks("python")
    assert len(program.strip().splitlines()) <= 10 + 1  # one of them is empty
    assert run([sys.executable, "-c", program], folder)


def test_make_knows_its_targets():
    targets = [command.split()[1] for command in commands("make ")]
    assert targets
    for target in targets:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert {"demo": "ddsfl demo", "test": "pytest"}[target] in done.stdout


@pytest.mark.slow
def test_the_demo_runs_and_writes_its_files(tmp_path, monkeypatch):
    """The demo with fewer scenes; `make demo` runs the same command in a fresh environment."""
    from ddsfl.experiments import demo
    from ddsfl.report.console import Console

    monkeypatch.setattr(demo, "N_TRAIN", 4)
    monkeypatch.setattr(demo, "N_TEST", 3)
    demo.run_demo(tmp_path, seed=0, device="cpu", console=Console(quiet=True))
    written = {path.name for path in tmp_path.iterdir()}
    assert {
        "scenes.safetensors",
        "layer1-filters.png",
        "layer2-sharing.png",
        "confusion.png",
        "why.html",
        "report.html",
    } <= written


def test_every_command_of_the_table_exists():
    from ddsfl.cli.main import COMMANDS

    assert set(re.findall(r"^\| `ddsfl (\w+)", README, flags=re.MULTILINE)) == set(COMMANDS)


def test_links_of_the_readme_have_targets():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target
