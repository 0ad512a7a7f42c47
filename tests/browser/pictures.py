"""Takes the pictures of the docs from the real UI: ``make pictures``.

Some months of flights, and a pipeline whose plan waits for a person; each picture is of a page as
somebody meets it who follows docs/quickstart.md.
"""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect

from examples.flight_data import produce
from tests.browser import pages
from tests.browser.site import PATIENCE_S, ROOT, Site, browser, site

PICTURES = ROOT / "docs" / "pictures"
NAME = "flight_events"
_SIZE: ViewportSize = {"width": 1280, "height": 800}
_COLOURS = 128
_MOST_BYTES = 200_000
_SETTLE_MS = 1500
_LIVE_S, _LIVE_RATE = 40, 300


def main() -> None:
    """Take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    since, until = datetime(2013, 6, 1, tzinfo=UTC), datetime(2013, 12, 1, tzinfo=UTC)
    days = {"by": "day", "start": "2013-08-01", "end": "2013-10-01"}
    declared = {"approve": True, "ranges": days}
    # A laptop reads all of it in a second or two: there would be nothing to see of its progress.
    slowly = {"batch": {"files": 6}, "rate": {"files": 6}}
    with (
        TemporaryDirectory(prefix="hybrid-pictures-") as folder,
        site(Path(folder), {NAME: declared}, since, until, slowly) as shown,
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
    pages.await_end(page, "Failure")
    stopped = page.url
    page.goto(shown.asset(NAME, "plan"))
    expect(page.get_by_text("columns, source by source")).to_be_visible()
    # As tall as what it shows.
    page.set_viewport_size({"width": _SIZE["width"], "height": 1700})
    _take(page, "plan")
    page.set_viewport_size(_SIZE)
    expect(pages.check_result(page, shown, NAME, "plan", "approved")).to_have_text("Failed")
    _take(page, "waiting")
    pages.fill_in(page, shown, f"{NAME}_approve", pages.form(f"{NAME}_approve", by="Ada"))
    _take(page, "approve")
    pages.launch(page)
    pages.await_end(page, "Success")
    page.goto(stopped)
    pages.re_execute_from_failure(page)
    pages.await_end(page, "Success")
    _take(page, "run")
    produce(shown.later[: _LIVE_S * _LIVE_RATE], shown.servers, NAME, _LIVE_RATE)
    page.goto(shown.asset(NAME, "progress"))
    page.get_by_role("button", name="Materialize").first.click()
    pages.follow_launch(page)
    pages.await_end(page, "Success")
    page.goto(shown.asset(NAME, "progress"))
    pages.open_markdown(page, "progress")
    _take(page, "progress")
    expect(pages.check_result(page, shown, NAME, "live_handover", "no_gap")).to_have_text("Passed")
    _take(page, "checks")
    _take_later(page, shown)


def _take_later(page: Page, shown: Site) -> None:
    """What a table is made anew by, in part and as a whole."""
    pages.launch_partitions(page, shown, NAME, "2013-09-03", "2013-09-05")
    expect(page.get_by_text("100% completed")).to_be_visible()
    page.goto(f"{shown.asset(NAME, 'ranges', 'partitions')}&partition=2013-09-04")
    expect(page.get_by_text("rows replaced")).to_be_visible()
    _take(page, "ranges")
    pages.fill_in(page, shown, NAME, pages.plan_form(NAME, generation="NEW"))
    _take(page, "generation")
    pages.launch(page)
    pages.await_end(page, "Failure")
    pages.fill_in(page, shown, f"{NAME}_approve", pages.form(f"{NAME}_approve", by="Ada"))
    pages.launch(page)
    pages.await_end(page, "Success")
    pages.materialize_all(page, shown, NAME)
    pages.await_end(page, "Success")
    page.goto(f"{shown.job(f'{NAME}_compare')}/playground")
    pages.launch(page)
    pages.await_end(page, "Success")
    _take(page, "compare")


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
