"""The commands of docs/many-images.md run as printed, in order; training gets small settings."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from attacks.sharded.processes import Mark, wait_until

from tests.support.clusters import require_ray
from tests.support.tiny import TINY_OPTIONS, write_scenes

PAGE = (Path(__file__).parents[1] / "docs" / "many-images.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, flags=re.DOTALL)
SCRIPTS = [block for block in BLOCKS if "#SBATCH" in block]
CLUSTER = [line for block in BLOCKS if "HEAD:" in block for line in block.splitlines()]
LINES = [
    line
    for block in BLOCKS
    if "#SBATCH" not in block and "HEAD:" not in block
    for line in block.splitlines()
    if not line.startswith(("pip ", "export ", "ray "))
]
#: Programs that stand for others: that of this checkout, and Slurm's, which starts its command here.
PROGRAMS = {
    "ddsfl": f'case $1 in train|evaluate) set -- "$@" {shlex.join(TINY_OPTIONS)};; esac\n'
    f'exec {shlex.quote(sys.executable)} -m ddsfl "$@"',
    "ray": f'exec {shlex.quote(sys.executable)} -c "from ray.scripts.scripts import main; main()" "$@"',
    "srun": 'while case $1 in -*) true;; *) false;; esac; do shift; done\nexec "$@"',
}


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """A user's folder with images and a model, and the programs."""
    folder = tmp_path_factory.mktemp("user")
    write_scenes(folder / "photos", n_per_class=4, classes=3)
    (folder / "bin").mkdir()
    for name, script in PROGRAMS.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    (train,) = (line for line in LINES if line.startswith("ddsfl train") and "--engine" not in line)
    run(train, folder)
    return folder


def run(command, folder, **environment):
    # A file, because what a command starts in the background would hold a pipe open.
    with tempfile.TemporaryFile("w+") as stream:
        code = subprocess.call(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", **environment},
            stdout=stream,
            stderr=stream,
        )
        stream.seek(0)
        said = stream.read()
    assert code == 0, f"{command}: {said}"
    return said


def assert_complete(folder, *names):
    from ddsfl.scale.checking import check_folder  # here, because it needs pyarrow

    for name in names:
        found = check_folder(folder / name)
        assert not found.problems
        assert (found.rows, found.failed, found.manifest.complete["rows"]) == (12, [], 12)


@pytest.mark.slow
def test_the_commands_for_one_machine_run_as_printed(user):
    pytest.importorskip("pyarrow")
    printed = [line for line in LINES if "--engine ray" not in line]
    assert len(printed) >= 8
    for line in dict.fromkeys(printed):  # some are printed twice
        if line.partition("--out ")[2] != "scenes.safetensors":  # the fixture has run it
            run(line, user)
    assert_complete(user, "labels.parquet", "vectors.parquet", "labels-server.parquet", "labels-two.parquet")
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (user / "read.py").write_text(program)
    assert "photos/" in run(f"{shlex.quote(sys.executable)} read.py", user)


@pytest.mark.slow
def test_the_array_of_slurm_jobs_computes_all_parts(user):
    pytest.importorskip("pyarrow")
    (script,) = (script for script in SCRIPTS if "--array" in script)
    (n_jobs,) = re.findall(r"--array=1-(\d+)", script)
    assert f'/{n_jobs}"' in script
    for task in ("1", n_jobs):  # the only shard belongs to the last job
        run(script, user, SLURM_ARRAY_TASK_ID=task, SLURM_CPUS_PER_TASK="1")
    assert_complete(user, "labels-slurm.parquet")


@pytest.mark.slow
def test_the_commands_for_ray_on_one_machine_run_as_printed(user):
    require_ray()
    (line,) = (line for line in LINES if "--engine ray" in line)
    run(line, user)
    assert_complete(user, "labels-ray.parquet")


@pytest.mark.slow
def test_the_commands_for_a_cluster_run_as_printed(user, tmp_path_factory):
    """A head with a token, another node, and a command on them; the home folder is the test's."""
    require_ray()
    (token,) = (line for block in BLOCKS for line in block.splitlines() if "--generate" in line)
    starts = [line for line in CLUSTER if line.startswith("ray start")]
    assert [("--head" in line) for line in starts] == [True, False]
    with cluster_ends() as (environment, port):
        environment["HOME"] = str(tmp_path_factory.mktemp("home"))
        run(token, user, **environment)
        assert (Path(environment["HOME"]) / ".ray" / "auth_token").exists()
        for line in CLUSTER:
            line = line.replace("HEAD:6379", f"127.0.0.1:{port}").replace("=6379", f"={port}")
            line += " --num-cpus=1" * line.startswith("ray start")
            line += f" --temp-dir=/tmp/ray-{port}" * ("--head" in line)
            said = run(line, user, **environment)
            assert "ray status" not in line or said.count(" node_") == 2
    assert_complete(user, "labels-cluster.parquet")


@pytest.mark.slow
def test_the_cluster_in_a_job_of_slurm_computes_all_parts(user):
    """Two nodes of the job are on this machine."""
    require_ray()
    (script,) = (script for script in SCRIPTS if "ray start" in script)
    with cluster_ends() as (environment, port):
        script = re.sub(r"^address=.*", f"address=$head:{port}", script, flags=re.MULTILINE)
        slurm = {"SLURMD_NODENAME": "127.0.0.1", "SLURM_NNODES": "2", "SLURM_CPUS_PER_TASK": "1"}
        run(script, user, **environment, **slurm, SLURM_JOB_ID=str(port))
    assert_complete(user, "labels-ray-slurm.parquet")


@contextmanager
def cluster_ends():
    """Yield an environment for Ray and a free port; what was started with it is killed at the end."""
    mark = Mark()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        yield {**mark.environment, "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}, port
    finally:
        mark.end()
        wait_until(lambda: not mark.living())
        shutil.rmtree(f"/tmp/ray-{port}", ignore_errors=True)  # short names, because of Ray's sockets
