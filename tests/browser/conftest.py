"""One Dagster, one broker and one browser for all tests in here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.site import PATIENCE_S, Site, browser, site


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The UI over small pipelines: as they come, with an approval, a gap to be, and ranges."""
    days = {"by": "day", "start": "2013-09-24", "end": "2013-10-01"}
    pipelines: dict[str, dict[str, Any]] = {
        "flights": {},
        "guarded": {"approve": True},
        "gapped": {},
        "versioned": {"ranges": days},
    }
    since, until = datetime(2013, 9, 24, tzinfo=UTC), datetime(2013, 10, 3, tzinfo=UTC)
    with site(tmp_path_factory.mktemp("site"), pipelines, since, until) as running:
        yield running


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with chromium.new_context(viewport={"width": 1440, "height": 900}) as context:
        made = context.new_page()
        made.set_default_timeout(PATIENCE_S * 1000)
        yield made
