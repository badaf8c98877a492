"""A step for `Stages` that counts its calls, and runs of it."""

from ddsfl.compute.stages import Stages


class Step:
    """Returns arrays and counts its calls."""

    def __init__(self, **arrays):
        self.arrays = arrays
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return self.arrays


def run(folder, step, key="settings", names=("first",), report=None):
    stages = Stages(folder, key, report)
    return stages, [stages.run(name, step) for name in names]
