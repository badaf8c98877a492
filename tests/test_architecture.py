"""What docs/architecture.md and the plan of the house promise."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ddsfl
from ddsfl.cli.main import COMMANDS, load_command

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ddsfl"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def steps(command):
    """The functions of a numbered list of the page, as module and qualified name."""
    section = PAGE.split(f"## The path of one JPEG through `ddsfl {command}`")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([\w.]+):([\w.]+)`", section, flags=re.MULTILINE)


@pytest.mark.parametrize("command", ["train", "predict"])
def test_the_functions_of_the_path_exist_where_the_page_says(command):
    listed = steps(command)
    assert len(listed) > 10
    for module, name in listed:
        value = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
        assert callable(value), name
        assert value.__module__ == module, name


@pytest.mark.slow
def test_the_functions_are_entered_in_the_order_of_the_page(tmp_path):
    from studies.doors import SMALL, commands, run

    entered = []

    def profile(frame, event, argument):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(PACKAGE)):
            module = file.removeprefix(str(PACKAGE.parent)).removesuffix(".py").strip("/").replace("/", ".")
            entered.append((module, frame.f_code.co_qualname.removesuffix(".__init__")))

    for command, arguments in commands(tmp_path).items():
        entered.clear()
        changes = [word for change in SMALL for word in ("--set", change)] if command == "train" else []
        run([*arguments, *changes], profile)
        order = {step: entered.index(step) for step in dict.fromkeys(entered)}
        listed = [step for step in steps(command) if step[1] != "decode"]  # which runs in a thread
        missing = [step for step in listed if step not in order]
        assert not missing
        times = [order[step] for step in listed]
        assert times == sorted(times), [step for step, at in zip(listed, times)]


@pytest.mark.slow
def test_few_doors_lie_before_the_first_patch(tmp_path):
    from studies.doors import commands, count_doors

    doors = count_doors(commands(tmp_path)["train"])
    assert 5 < len(doors.names) <= 12, doors.names


def test_every_room_has_a_row_and_every_row_a_room():
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    rows = re.findall(r"^\| `(\w+)/` \|", PAGE, flags=re.MULTILINE)
    assert set(rows) == rooms
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    ladder = [rung.split(" | ") for rung in config["contracts"][0]["layers"]]
    assert len(ladder) <= 14
    assert {room for rung in ladder for room in rung} == rooms
    below = {room: number for number, rung in enumerate(reversed(ladder)) for room in rung}
    assert [below[room] for room in rows] == sorted(below[room] for room in rows)
    assert not config.get("exclude_type_checking_imports", False)
    assert not any("ignore_imports" in contract for contract in config["contracts"])


def test_files_that_the_page_names_exist():
    for name in re.findall(r"`((?:\w+/)+\w+\.\w+)`", PAGE):
        assert (PACKAGE / name).is_file() or (ROOT / name).is_file() or (ROOT / "src" / name).is_file(), name


def test_no_module_stands_in_the_root_and_none_is_too_long():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 320, path


@pytest.mark.parametrize(
    ("option", "shown"),
    [("--help", "Learn a classifier from labelled images."), ("--version", f"ddsfl {ddsfl.__version__}\n")],
)
def test_help_and_version_are_shown_without_torch(option, shown):
    program = (
        f"import sys; sys.argv = ['ddsfl', '{option}']\n"
        "from ddsfl.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'torch', 'numpy', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_repeats_the_first_line_of_their_help(name):
    assert load_command(name).help.splitlines()[0] == COMMANDS[name].summary


def test_public_names_are_imported_on_first_use_and_typed():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {alias.name: node.module for node in block.body for alias in node.names}
    assert typed == ddsfl._MODULES
    for name in ddsfl.__all__:
        assert getattr(ddsfl, name).__module__ == typed[name]
    assert set(ddsfl.__all__) <= set(dir(ddsfl))
    with pytest.raises(AttributeError, match="no attribute 'SceneClassifer'"):
        ddsfl.SceneClassifer  # noqa: B018
