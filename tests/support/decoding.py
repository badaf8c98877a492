"""Decode the files of a folder, each in a process of its own, and print what each took as JSON.

`python -m tests.support.decoding FOLDER`
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path

from PIL import Image

from ddsfl.images import apart
from ddsfl.images.opening import read_pixels
from ddsfl.images.pixels import reason_of

STARTED = []


def listen(event, arguments):
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.forkpty"):
        STARTED.append(f"{event} {arguments[:2]}"[:300])


def status(field, process="self"):
    """A field of the status of a process in bytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def outcome(path):
    """Reason of refusal or None, seconds of processor time, peak of memory, and processes started."""
    sys.addaudithook(listen)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = status("VmRSS"), time.process_time()
    reason = None
    try:
        with open(path, "rb") as stream:
            read_pixels(stream, "rgb", max_side=300, min_side=16)
    except Exception as error:  # as in `decode`, which needs torch
        reason = reason_of(error)
    # A helper has its program in memory, too, which this process had before.
    helpers = [status("VmHWM", helper._process.pid) for helper in apart._HELPERS._idle]
    peak = max([status("VmHWM") - before, *(peak - 40_000_000 for peak in helpers)])
    started = [command for command in STARTED if "ddsfl.images.apart" not in command]
    return {"reason": reason, "seconds": time.process_time() - start, "memory": peak, "started": started}


def main():
    warnings.simplefilter("ignore")
    Image.init()
    for path in sorted(Path(sys.argv[1]).iterdir()):
        child = os.fork()
        if not child:
            sys.stdout.write(json.dumps({"name": path.name, **outcome(path)}) + "\n")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
