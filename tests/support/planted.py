"""Domains of `attacks` with planted faults: each must be found by the harness."""

import os
import socket
import subprocess
import sys
import time

import numpy as np


class Clean:
    """Opens the file that the user named; accepts and refuses."""

    name = "clean"

    def prepare(self, folder):
        self.secret = folder / "secret.txt"
        self.secret.write_text("of another user")

    def case(self, rng, folder):
        path = folder / "named.txt"
        path.write_text(str(rng.integers(10**6)))
        return path

    def attempt(self, case):
        print("not shown anywhere")
        return "accepted" if int(case.read_text()) % 2 else "refused"

    def may_open(self, case):
        return [case]


class Foreign(Clean):
    def attempt(self, case):
        return {}[case.read_text()]


class Broken(Clean):
    def attempt(self, case):
        raise AssertionError("NaN in JSON")


class Tells(Clean):
    def attempt(self, case):
        raise AssertionError(case.read_text())


class Unknown(Clean):
    def attempt(self, case):
        return "who knows"


class Waits(Clean):
    def attempt(self, case):
        time.sleep(60)


class Works(Clean):
    def attempt(self, case):
        while True:
            pass


class Allocates(Clean):
    def attempt(self, case):
        np.ones(30_000_000)  # 240 MB
        return super().attempt(case)


class AllocatesTooMuch(Clean):
    def attempt(self, case):
        np.ones(10**10)
        return super().attempt(case)


class Dies(Clean):
    def attempt(self, case):
        os.kill(os.getpid(), 11)


class Opens(Clean):
    def attempt(self, case):
        self.secret.read_text()
        return super().attempt(case)


class OpensThroughALink(Clean):
    def case(self, rng, folder):
        path = super().case(rng, folder)
        (folder / "link.txt").symlink_to(self.secret)
        return path

    def attempt(self, case):
        (case.parent / "link.txt").read_text()
        return super().attempt(case)


class OpensOutside(Clean):
    def attempt(self, case):
        with open("/etc/passwd"):
            return super().attempt(case)


class Removes(Clean):
    def attempt(self, case):
        self.secret.unlink(missing_ok=True)
        return super().attempt(case)


class Starts(Clean):
    def attempt(self, case):
        subprocess.run([sys.executable, "-c", ""], check=True)
        return super().attempt(case)


class MayStart(Starts):
    """Starts a child process that it has declared."""

    may_start = (sys.executable,)


class Connects(Clean):
    def attempt(self, case):
        with socket.socket():
            return super().attempt(case)
