"""Takes the pictures of the docs from the real UI: ``make pictures``.

Some months of flights, in one pipeline that runs and one whose plan waits for a person; each
picture is of a page as somebody meets it who follows docs/quickstart.md.
"""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect

from examples.flight_data import produce
from tests.browser import pages
from tests.browser.site import PATIENCE_S, ROOT, Site, browser, site

PICTURES = ROOT / "docs" / "pictures"
NAME, REVIEWED = "flight_events", "reviewed_flights"
_WIDTH, _HEIGHT = 1440, 900
_SIZE: ViewportSize = {"width": _WIDTH, "height": _HEIGHT}
# So tall that what is below the columns of a table is seen, too.
_TALL: ViewportSize = {"width": _WIDTH, "height": 1650}
_COLOURS = 128
_MOST_BYTES = 200_000
_SETTLE_MS = 1500
_LIVE_S, _LIVE_RATE = 40, 300


def main() -> None:
    """Take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    since, until = datetime(2013, 8, 1, tzinfo=UTC), datetime(2013, 11, 1, tzinfo=UTC)
    days = {"by": "day", "start": "2013-08-01", "end": "2013-10-01"}
    declared: dict[str, dict[str, Any]] = {NAME: {"ranges": days}, REVIEWED: {"approve": True}}
    # A laptop reads all of it in a second or two: there would be nothing to see of its progress.
    slowly = {"batch": {"files": 6}, "rate": {"files": 6}}
    with (
        TemporaryDirectory(prefix="hybrid-") as folder,
        site(Path(folder), declared, since, until, slowly) as shown,
        browser() as chromium,
        chromium.new_context(viewport=_SIZE) as context,
    ):
        page = context.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        _take_all(page, shown)


def _take_all(page: Page, shown: Site) -> None:
    page.goto(f"{shown.url}/locations/hybrid_backfill/asset-groups/{NAME}")
    expect(page.get_by_text("live_handover").first).to_be_visible()
    _take(page, "chain")
    page.goto(shown.job(NAME))
    expect(page.get_by_role("button", name="Materialize all")).to_be_visible()
    _take(page, "job")
    pages.materialize_all(page, shown, NAME)
    pages.await_end(page, "Success")
    _take(page, "run")
    produce(shown.later[: _LIVE_S * _LIVE_RATE], shown.servers, NAME, _LIVE_RATE)
    expect(pages.check_result(page, shown, NAME, "table", "healthy")).to_have_text("Passed")
    _take_tall(page, shown, "table", "last 24 h (UTC)")
    _take_tall(page, shown, "plan", "columns, source by source")
    pages.materialize(page, shown, NAME, "progress")
    pages.await_end(page, "Success")
    page.goto(shown.asset(NAME, "progress"))
    pages.open_markdown(page, "progress")
    _take(page, "progress")
    expect(pages.check_result(page, shown, NAME, "live_handover", "no_gap")).to_have_text("Passed")
    _take(page, "checks")
    expect(pages.check_result(page, shown, NAME, "live", "lag")).to_have_text("Passed")
    _take(page, "live-checks")
    _take_approval(page, shown)
    _take_later(page, shown)


def _take_approval(page: Page, shown: Site) -> None:
    """What waits for a person, and the form by which it goes on."""
    pages.materialize_all(page, shown, REVIEWED)
    pages.await_end(page, "Success")
    expect(pages.check_result(page, shown, REVIEWED, "plan", "approved")).to_have_text("Failed")
    _take(page, "waiting")
    page.goto(shown.job(f"{REVIEWED}_control"))
    pages.open_launchpad(page)
    pages.choose_action(page, f"{REVIEWED}_control", "APPROVE", by="Ada")
    _take(page, "control")


def _take_later(page: Page, shown: Site) -> None:
    """What a table is recomputed by, in part and as a whole."""
    pages.launch_partitions(page, shown, NAME, "2013-09-03", "2013-09-05")
    expect(page.get_by_text("100% completed")).to_be_visible()
    page.goto(f"{shown.asset(NAME, 'ranges', 'partitions')}&partition=2013-09-04")
    expect(page.get_by_text("rows replaced")).to_be_visible()
    _take(page, "ranges")
    job = f"{NAME}_generation"
    page.goto(shown.job(job))
    pages.open_launchpad(page)
    pages.choose_action(page, job, "RERUN", promote="NEVER")
    _take(page, "generation")
    pages.launch(page)
    pages.await_end(page, "Success")
    pages.fill_in(page, shown, job, pages.form(job, action="COMPARE"))
    pages.launch(page)
    pages.await_end(page, "Success")
    _take(page, "compare")
    together = {"promote": {"together_with": [f"{REVIEWED}.yaml"]}}
    pages.fill_in(page, shown, job, pages.form(job, action=together))
    _take(page, "promote")


def _take_tall(page: Page, shown: Site, step: str, awaited: str) -> None:
    """A picture of an asset's page, down to its metadata."""
    page.set_viewport_size(_TALL)
    page.goto(shown.asset(NAME, step))
    expect(page.get_by_text(awaited)).to_be_visible()
    _take(page, step)
    page.set_viewport_size(_SIZE)


def _take(page: Page, name: str) -> None:
    """A picture of what the window shows, small enough for a repository."""
    page.mouse.move(0, 0)
    # Graphs move to their places; nothing tells when they are there.
    page.wait_for_timeout(_SETTLE_MS)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    path = PICTURES / f"{name}.png"
    picture.quantize(_COLOURS).save(path, optimize=True)
    size = path.stat().st_size
    assert size < _MOST_BYTES, f"{path} has {size:,} bytes"
    sys.stdout.write(f"{path.relative_to(ROOT)}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
