"""Pictures of the pages that `make demo` writes, for the README and the docs:

    make demo && python -m studies.page_pictures         writes docs/why.png, docs/report*.png

It needs Chromium and playwright (`pip install '.[test]'`).
"""

from __future__ import annotations

import argparse
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

from ddsfl.compute.stages import write_whole

ROOT = Path(__file__).resolve().parents[1]
#: What is photographed: width and height in pixels.
WIDE: ViewportSize = {"width": 1120, "height": 860}
PHONE: ViewportSize = {"width": 390, "height": 844}


def fourth_image(page: Any) -> None:
    """Turn to the image that docs/explain.md tells about."""
    page.evaluate("location.hash = '#image-4'")


def section(name: str) -> Any:
    """Return what scrolls to a section of the report."""

    def scroll(page: Any) -> None:
        page.locator(f"#{name}").evaluate("part => part.scrollIntoView()")

    return scroll


#: Picture: page, view, whether it is dark, and what is done before.
PICTURES: dict[str, tuple[str, ViewportSize, bool, Any]] = {
    "why.png": ("why.html", WIDE, False, fourth_image),
    "report.png": ("report.html", WIDE, False, lambda page: None),
    "report-confusions.png": ("report.html", WIDE, True, section("confusion")),
    "report-phone.png": ("report.html", PHONE, False, lambda page: None),
}


def small(png: bytes) -> bytes:
    """Return a picture in 256 colours: half the bytes, and no difference that one sees."""
    stream = BytesIO()
    Image.open(BytesIO(png)).convert("RGB").quantize(256).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"from {', '.join(PICTURES)}; default: all")
    parser.add_argument("--demo", type=Path, default=ROOT / "demo", help="folder of the pages")
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=options.browser, args=["--no-sandbox"])
        for name in options.names or PICTURES:
            page, view, is_dark, prepare = PICTURES[name]
            shown = chromium.new_page(viewport=view, color_scheme="dark" if is_dark else "light")
            shown.goto((options.demo / page).resolve().as_uri())
            prepare(shown)
            shown.wait_for_timeout(300)
            write_whole(options.out / name, small(shown.screenshot()))
            print(options.out / name)
        chromium.close()


if __name__ == "__main__":
    main()
