"""Pages in a real browser, watched: errors, dialogs and requests that a page must not make."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REQUIRED = "DDSFL_REQUIRE_BROWSER"
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

#: The contrast of text with the background behind it, and the font, for every text that is shown.
CONTRASTS = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = channels(colour).slice(0, 3).map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0.99) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const disabled = node.matches(".turn span, :disabled");
    if (!own || disabled || !node.checkVisibility() || node.matches("script, style, noscript")) continue;
    const [one, other] = [light(getComputedStyle(node).color), light(behind(node))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.push(`${node.className || node.tagName}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser():
    """Chromium, started once per module: while it runs, no test can run an event loop of its own."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _do_without("Playwright is not installed (pip install playwright)")
    if program is None:
        _do_without("no Chromium was found (apt-get install chromium)")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


def _do_without(reason):
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, but {reason}.")
    pytest.skip(reason)


@dataclass
class Watch:
    """What a page did that it should not do."""

    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def over(self, page, file: Path):
        """Watch a page of a file."""
        page.on("console", lambda message: self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", self._dismiss)
        page.on("request", lambda request: self._note(request.url, file))

    def _dismiss(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _note(self, address, file):
        if not address.startswith("data:") and address.split("#")[0] != file.as_uri():
            self.requests.append(address)


@pytest.fixture
def open_page(browser, tmp_path):
    """Open the text of a page in a new window, with options of the window; it must behave until the end."""
    watch, windows = Watch(), []

    def opened(text, width=1280, height=900, **options):
        file = tmp_path / f"page{len(windows)}.html"
        file.write_text(text, encoding="utf-8")
        windows.append(browser.new_context(viewport={"width": width, "height": height}, **options))
        page = windows[-1].new_page()
        page.set_default_timeout(5000)
        watch.over(page, file)
        page.goto(file.as_uri())
        return page

    yield opened
    for window in windows:
        window.close()
    assert watch == Watch()


def overflow(page):
    """Return by how many pixels a page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def focused(page):
    """What the keyboard is on: its text, or its name for readers of screens."""
    return page.evaluate("document.activeElement.textContent || document.activeElement.ariaLabel").strip()


def names_of(page):
    """The names of the mistakes that a report shows, in order."""
    shown = page.locator("#mistakes [data-list] > :visible .path")
    return shown.evaluate_all("names => names.map(name => name.textContent.trim())")
