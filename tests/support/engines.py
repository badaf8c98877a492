"""An engine for tests: everything travels by pickle, and outcomes come in any order."""

import pickle
import random

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
