"""Work on a GPU that is recorded once and repeated: the host then queues one thing instead of many.

Small kernels take less time than queueing them. Recorded work must not wait for the GPU, and its inputs and
results stay where they were: callers write new inputs into the old ones.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


def recorded(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Return what repeats ``work`` on a CUDA device; it is recorded without being done.

    Do the work once before: kernels are compiled and loaded then, which cannot be recorded.
    """
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        # Other threads may allocate memory meanwhile, to decode images for example.
        graph.capture_begin(capture_error_mode="thread_local")
        work()
        graph.capture_end()
    torch.cuda.current_stream(device).wait_stream(stream)
    return graph.replay
