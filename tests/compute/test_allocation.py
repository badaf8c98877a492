import os
import subprocess
import sys

import pytest

from ddsfl.compute.allocation import SET_BY_USERS

#: Counts the pages that the system hands out while results of 40 MB come and go.
FAULTS = """
import resource, sys
{before}
import torch
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    torch.ones(10**7).add_(1)
before = faults()
for _ in range(20):
    torch.ones(10**7).add_(1)
print(faults() - before)
"""


def faults_after(before, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in SET_BY_USERS}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.format(before=before)],
        env={**clean, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has mallopt")
def test_freed_memory_is_used_again():
    usual = faults_after("")
    if usual < 10_000:
        pytest.skip("this C library keeps freed memory anyway")
    assert faults_after("import ddsfl.compute.device") < usual / 10


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has mallopt")
def test_what_a_user_set_is_left_alone():
    kept = "from ddsfl.compute.allocation import keep_freed_memory; assert not keep_freed_memory()"
    assert faults_after(kept, MALLOC_TOP_PAD_="65536") >= 0
