"""The browser and the report that several tests of pages look at."""

import pytest

from ddsfl.report.pages.report import report_page
from tests.support.browser import browser, open_page  # noqa: F401  (fixtures)
from tests.support.made_report import made_report


@pytest.fixture(scope="module")
def full():
    report = made_report(comparison=True)
    return report, report_page(report)


@pytest.fixture(scope="module")
def eight():
    return report_page(made_report())


@pytest.fixture(scope="module")
def comparison():
    return report_page(made_report(comparison=True))
