"""The commands of docs/evaluation.md are accepted as printed."""

import re
import shlex
from pathlib import Path

import pytest

from ddsfl.cli.main import load_command
from ddsfl.cli.search import _axes
from ddsfl.cli.splitting import Splitting
from ddsfl.experiments.axes import SHORT, count_candidates
from ddsfl.experiments.methods import DESCRIPTORS, method
from ddsfl.model.presets import PRESETS, preset

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
COMMANDS = [line.split("  #")[0] for line in PAGE.splitlines() if line.startswith("ddsfl ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_accepted(command):
    _, name, *words = shlex.split(command)
    given = load_command(name).make_context(name, words).params
    if name == "search":
        assert count_candidates(preset(given["preset"]), _axes(given["tries"], given["over"])) > 1
    else:
        options = ("protocol", "folds", "train", "test", "splits", "train_list", "test_list", "groups")
        Splitting(**{option: given[option] for option in options})


def names_in_table(section):
    """Return the names in the first column of the table of a section."""
    page = PAGE.split(f"\n## {section}")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^` ]+)`", row)]


def test_the_table_has_every_short_name():
    names = [name for name in names_in_table("Which settings?") if name != "--set"]
    assert set(names) == {"preset", *SHORT}


def test_the_methods_of_the_table_exist():
    names = names_in_table("Compare methods")
    assert {*PRESETS, *DESCRIPTORS} <= set(names)
    for name in names:
        assert method(name, {"NAME": "a.onnx"}).blocks
