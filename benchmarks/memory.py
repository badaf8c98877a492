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


def memory_of(process: int) -> tuple[float, float]:
    """Return the memory in MB that a process and its children hold, without and with the files they map.

    The system may take back pages of files at any time, so these are no need for memory.
    """
    held = every = 0.0
    for number in _with_children(process):
        try:
            lines = Path(f"/proc/{number}/status").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        kilobytes = {line.partition(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
        if kilobytes:  # else it has ended, and its parent has not noticed
            held += (int(kilobytes["RssAnon"]) + int(kilobytes["RssShmem"])) / 1024
            every += sum(map(int, kilobytes.values())) / 1024
    return round(held, 1), round(every, 1)


def _with_children(process: int) -> list[int]:
    """Return a process and all that descend from it."""
    found = [process]
    for number in found:
        for task in Path(f"/proc/{number}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found
