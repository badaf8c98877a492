"""A picture of the page of explanations, for the README:

    make demo && python -m studies.why_picture          writes docs/why.png from demo/why.html

It needs Chromium and playwright (`pip install '.[test]'`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

from ddsfl.compute.stages import write_whole

ROOT = Path(__file__).resolve().parents[1]
#: What is photographed: width and height in pixels.
VIEW: ViewportSize = {"width": 1120, "height": 860}


def photograph(page: Path, number: int, browser: str) -> bytes:
    """Return a PNG of one image on a page."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        view = chromium.new_page(viewport=VIEW, color_scheme="light")
        view.goto(page.resolve().as_uri())
        for _ in range(number):
            view.get_by_text("Next", exact=True).filter(visible=True).click()
        view.wait_for_timeout(300)
        picture = view.screenshot()
        chromium.close()
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", type=Path, default=ROOT / "demo" / "why.html")
    parser.add_argument("--number", type=int, default=3, help="which image of the page, counted from 0")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "why.png")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    options = parser.parse_args()
    write_whole(options.out, photograph(options.page, options.number, options.browser))
    print(options.out)


if __name__ == "__main__":
    main()
