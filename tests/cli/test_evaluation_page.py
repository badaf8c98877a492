"""The commands of docs/evaluation.md are accepted as printed."""

import re
import shlex
from pathlib import Path

import pytest

from ddsfl.cli.main import load_command
from ddsfl.cli.search import _axes
from ddsfl.cli.splitting import Splitting
from ddsfl.experiments.axes import SHORT, count_candidates
from ddsfl.model.presets import preset

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


def test_the_table_has_every_short_name():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {"preset", *SHORT}
