"""Size of a report, and the time to make it and to its first paint: `python -m benchmarks.report_page`."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from importlib import import_module
from pathlib import Path

from ddsfl.report.pages.report import report_page

#: Classes and images per class: about 300 mistakes of 15 classes, 650 of 102.
CASES = ((15, 95), (102, 29))
PICTURES, LAYERS, FILTERS, OPENINGS = 300, 3, 256, 5
_PAINT = "performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)"


def main() -> None:
    from playwright.sync_api import sync_playwright

    made = import_module("tests.support.made_report")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for count, per_class in CASES:
            names = tuple(f"class {number}" for number in range(count))
            tested = made.made_tested(names, per_class, pictures=PICTURES)
            learned = made.made_learned(names, LAYERS, FILTERS)
            started = time.perf_counter()
            page = report_page(made.made_report(tested=tested, learned=learned))
            seconds = time.perf_counter() - started
            file = Path(folder, f"{count}.html")
            file.write_text(page, encoding="utf-8")
            paints = []
            for _ in range(OPENINGS):
                window = browser.new_page()
                window.goto(file.as_uri())
                window.wait_for_timeout(1000)
                paints += window.evaluate(_PAINT)
                window.close()
            print(
                f"{count} classes, {tested.images} images, {len(tested.mistakes)} mistakes: "
                f"{len(page.encode()) / 1e6:.1f} MB, made in {seconds:.1f} s, "
                f"first paint after {statistics.median(paints):.0f} ms (median of {len(paints)})"
            )


if __name__ == "__main__":
    main()
