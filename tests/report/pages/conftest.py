"""The browser for tests of pages."""

from tests.support.browser import browser, open_page  # noqa: F401  (fixtures)
