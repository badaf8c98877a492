"""Peak memory of the current process since the last reset."""

from __future__ import annotations

from pathlib import Path


def forget_peak() -> float:
    """Reset the peak memory and return the memory in use; getrusage would keep the peak of the parent."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_gigabytes()


def peak_gigabytes() -> float:
    """Return the peak memory of this process in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(peak) / 2**20
