"""The program interrupted: by a full disk, by kill -9 and by Ctrl-C; rerun, it resumes."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from safetensors import safe_open

from tests.support.tiny import TINY_OPTIONS

# Sums are rounded by the number of threads: every run of a comparison has the one thread of these tests.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def tensors_of(path):
    with safe_open(path, framework="numpy") as stream:
        return {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118


def assert_same_model(one, other):
    a, b = tensors_of(one), tensors_of(other)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_a_full_disk_while_saving_loses_nothing(ddsfl, scenes, tmp_path, monkeypatch):
    def full(path, payload):
        if path.name == "m":
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(payload)

    monkeypatch.setattr("ddsfl.model.file.write_whole", full)
    code, _, err = ddsfl("train", scenes, "--out", tmp_path / "m", *TINY_OPTIONS)
    assert code == 1
    assert "space" in err.lower()
    monkeypatch.undo()
    code, _, err = ddsfl("train", scenes, "--out", tmp_path / "m", *TINY_OPTIONS)
    assert code == 0
    assert err.count("reused from an earlier run") >= 9


def test_a_full_disk_while_storing_a_stage_loses_no_earlier_one(ddsfl, scenes, tmp_path, monkeypatch):
    stored = []

    def full(path, payload):
        if stored:
            raise OSError(28, "No space left on device", str(path))
        stored.append(path)
        path.write_bytes(payload)

    with monkeypatch.context() as patch:
        patch.setattr("ddsfl.compute.stages.write_whole", full)
        code, out, err = ddsfl("train", scenes, "--out", tmp_path / "m", *TINY_OPTIONS)
    assert (code, out, len(stored)) == (1, "", 1)
    assert err.splitlines()[-1].startswith("ddsfl: No space left on device: ")
    assert err.count("ddsfl:") == 1
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()
    code, _, err = ddsfl("train", scenes, "--out", tmp_path / "m", *TINY_OPTIONS)
    assert code == 0
    assert err.count("reused from an earlier run") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.run.json"]


# The program sends itself the signal once the file of a stage is complete: nobody has to be in time.
SIGNALLED = """
import os, sys
from ddsfl.compute import stages
write = stages.write_whole
stage, sent = sys.argv.pop(1), int(sys.argv.pop(1))
def write_then_signal(path, payload):
    write(path, payload)
    if path.name.startswith(stage + "."):
        os.kill(os.getpid(), sent)
stages.write_whole = write_then_signal
from ddsfl.cli.main import main
main()
"""


def train_until(stage, scenes, out, sent):
    """Train until the file of a stage is stored, then be signalled; return exit code, errors and command."""
    arguments = ["train", str(scenes), "--out", str(out), *TINY_OPTIONS]
    process = subprocess.run(
        [sys.executable, "-c", SIGNALLED, stage, str(int(sent)), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=ONE_THREAD,
        # Shells start background jobs with SIGINT ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert list(out.with_name(f"{out.name}.stages").glob(f"{stage}.*")), process.stderr
    return process.returncode, process.stderr, [sys.executable, "-m", "ddsfl", *arguments]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["layer1.bank", "layer2.exemplars", "layer2.words"])
def test_killed_at_a_stage_it_resumes_to_the_same_model(stage, scenes, model, tmp_path):
    out = tmp_path / "m.safetensors"
    code, _, command = train_until(stage, scenes, out, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not out.exists()
    again = subprocess.run(command, capture_output=True, text=True, check=False, env=ONE_THREAD)
    assert again.returncode == 0, again.stderr
    assert "reused from an earlier run" in again.stderr
    assert_same_model(out, model)


@pytest.mark.slow
def test_after_ctrl_c_it_prints_how_to_resume(scenes, tmp_path):
    code, err, _ = train_until("layer1.space", scenes, tmp_path / "m.safetensors", signal.SIGINT)
    assert code == 130
    assert "interrupted; rerun the same command to resume." in err
    assert "Traceback" not in err
