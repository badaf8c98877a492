"""An engine for tests: everything travels by pickle, and outcomes come in any order."""

import pickle
import random

from ddsfl.images import store
from ddsfl.patches import batches
from ddsfl.scale.engine import Engine, Outcome


class Far(Engine):
    """Works in this process as if it were another one, on items in a shuffled order.

    ``working`` tells that a worker works at the moment; ``made`` has what makes a worker, ``sent`` the items
    and ``returned`` what came back, as bytes. ``fails`` names the numbers of items whose worker dies.
    """

    n_workers = 3

    def __init__(self, fails=()):
        self.fails, self.working, self.n_runs = fails, False, 0
        self.made, self.sent, self.returned = [], [], []

    def run(self, make, items, say=lambda line: None):
        self.n_runs += 1
        self.made.append(pickle.dumps(make))
        worker = pickle.loads(self.made[-1])()
        order = list(range(len(items)))
        random.Random(self.n_runs).shuffle(order)
        for number in order:
            if number in self.fails:
                yield Outcome(items[number], failure="a process was killed by SIGKILL")
                continue
            self.sent.append(pickle.dumps(items[number]))
            self.working = True
            try:
                self.returned.append(pickle.dumps(worker(pickle.loads(self.sent[-1]), say)))
            except Exception as error:
                yield Outcome(items[number], failure=f"a worker raised {error!r} three times")
                continue
            finally:
                self.working = False
            yield Outcome(items[number], pickle.loads(self.returned[-1]))


def use_small_parts(monkeypatch):
    """Make batches of 5 images, read 3 and encode 4 at a time, learn axes and words from every n-th image."""
    monkeypatch.setitem(batches.READ_AHEAD, "cpu", 5)
    monkeypatch.setattr("ddsfl.images.image_list.READ_AT_ONCE", 3)
    monkeypatch.setattr("ddsfl.learning.inputs.SPACE_IMAGES", 4)
    monkeypatch.setattr("ddsfl.patches.sampling.SAMPLED_IMAGES", 5)
    for module in ("fit", "keys"):
        monkeypatch.setattr(f"ddsfl.model.{module}.ENCODED_AT_ONCE", 4)


def only_workers_decode(monkeypatch):
    """Return a list of engines; from now on only their workers may decode images, once there is one in it."""
    engines, decode = [], store.decode

    def checked(source, **options):
        assert all(engine.working for engine in engines), f"{source} is decoded by the driver"
        return decode(source, **options)

    monkeypatch.setattr(store, "decode", checked)
    return engines
