"""Feed hostile input to the product: `python -m attacks.fuzz [DOMAIN ...]`. Exit code 1 after findings."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from attacks.domain import found_domains
from attacks.harness import Attack, Tally

#: Cases of a complete run.
CASES = {
    "images": 20_000,
    "models": 10_000,
    "archives": 5_000,
    "lists": 5_000,
    "settings": 5_000,
    "commands": 500,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the attack that the command line describes; return the exit code."""
    options = _parsed(arguments)
    found = found_domains()
    ordered = sorted(found, key=lambda name: (list(CASES).index(name) if name in CASES else len(CASES), name))
    tallies = []
    for name in options.domains or ordered:
        numbers = range(options.start, options.start + (options.cases or CASES.get(name, 1_000)))
        if options.case is not None:
            numbers = range(options.case, options.case + 1)
        attack = Attack(name, found[name], options.seed, options.keep)
        tally = attack.run(numbers, min(options.jobs, len(numbers)), _Progress(len(numbers)))
        tallies.append(tally)
        if tally.results.total() < len(numbers):
            following = options.start + tally.results.total()
            print(
                f"\nStopped; resume with: {name} --seed {options.seed} --start {following}", file=sys.stderr
            )
            break
    print("\n".join(report(tallies, options.keep)))
    return int(any(tally.findings for tally in tallies))


def report(tallies: list[Tally], keep: Path) -> list[str]:
    """Return a table of all domains and the findings, equal ones once, as lines.

    >>> report([Tally("lists")], Path("kept"))[1].split()
    ['lists', '0', '0', '0', '0', '0.0', '0.00', 'none']
    """
    row = "{:<10}{:>8}{:>10}{:>9}{:>10}{:>11}{:>9}  {}"
    lines = [
        row.format("domain", "cases", "accepted", "refused", "findings", "slowest s", "most GB", "kinds")
    ]
    for tally in tallies:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(tally.kinds.items())) or "none"
        results = tally.results
        counts = (results.total(), results["accepted"], results["refused"], results["finding"])
        most = (f"{tally.slowest[0]:.1f}", f"{tally.largest[0] / 1e9:.2f}")
        lines.append(row.format(tally.domain, *counts, *most, kinds))
    for tally in tallies:
        for same in tally.findings.values():
            first = same[0]
            found = f"{first.kind}: {first.what} [{first.where}]"
            lines.append(f"{tally.domain} {first.number} ({len(same)} alike) {found}")
            lines.append(f"    {keep / tally.domain / str(first.number)}")
    return lines


class _Progress:
    """One line every few seconds."""

    def __init__(self, total: int) -> None:
        self._total, self._shown = total, time.monotonic()

    def __call__(self, tally: Tally) -> None:
        if time.monotonic() - self._shown > 10:
            self._shown = time.monotonic()
            done, found = tally.results.total(), len(tally.findings)
            print(f"{tally.domain}: {done} of {self._total}, {found} kinds of findings", file=sys.stderr)


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    known = list(found_domains())
    parser = argparse.ArgumentParser(prog="python -m attacks.fuzz", description=__doc__)
    parser.add_argument("domains", nargs="*", metavar="DOMAIN", help=f"from {', '.join(known)}; default: all")
    parser.add_argument("--cases", type=int, help="number of cases per domain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--start", type=int, default=0, help="number of the first case, to resume")
    parser.add_argument("--case", type=int, help="run only the case with this number")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/fuzz"), help="folder for cases with findings"
    )
    options = parser.parse_args(arguments)
    for name in options.domains:
        if name not in known:
            parser.error(f"{name} is no domain; expected one of {', '.join(known)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
