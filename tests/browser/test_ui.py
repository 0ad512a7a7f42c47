"""The journey of somebody who has only a browser: launch, watch, approve, see what is wrong."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser import pages
from tests.browser.site import Site

pytestmark = [
    pytest.mark.browser,
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.timeout(900),
]


def test_a_chain_is_materialized_and_its_progress_seen(page: Page, shown: Site) -> None:
    pages.materialize_all(page, shown, "flights")
    pages.await_end(page, "Success")

    page.goto(shown.asset("flights", "plan"))
    expect(page.get_by_text("columns, source by source")).to_be_visible()
    expect(page.get_by_text("no run has told yet how fast `history` is read")).to_be_visible()

    page.goto(shown.asset("flights", "progress"))
    for name in ("progress", "rows by day"):
        picture = pages.open_markdown(page, name)
        # The UI may show a broken picture as well.
        assert picture.evaluate("it => it.complete && it.naturalWidth > 500")
        page.keyboard.press("Escape")
        expect(picture).to_be_hidden()

    for name in ("no_gap", "no_overlap", "retention", "schema"):
        expect(pages.check_result(page, shown, "flights", "live_start", name)).to_have_text(
            "Passed"
        )


def test_a_plan_waits_for_its_approval_and_a_gap_is_red_with_its_reason(
    page: Page, shown: Site
) -> None:
    pages.materialize_all(page, shown, "guarded")
    pages.await_end(page, "Failure")
    expect(pages.check_result(page, shown, "guarded", "plan", "approved")).to_have_text("Failed")
    expect(page.get_by_text("The plan is not approved yet.").first).to_be_visible()
    expect(page.get_by_text("guarded_approve").first).to_be_visible()

    pages.fill_in(page, shown, "guarded_approve", pages.form("guarded_approve", by="Ada"))
    pages.launch(page)
    pages.await_end(page, "Success")
    expect(pages.check_result(page, shown, "guarded", "plan", "approved")).to_have_text("Passed")
    expect(page.get_by_text(re.compile("Approved by Ada at")).first).to_be_visible()

    page.goto(shown.asset("guarded", "history"))
    page.get_by_role("button", name="Materialize").first.click()
    pages.follow_launch(page)
    pages.await_end(page, "Success")
    # Between history and the hand-over Kafka deletes what comes next.
    shown.delete_records("guarded")
    pages.materialize_all(page, shown, "guarded")
    pages.await_end(page, "Failure")
    expect(pages.check_result(page, shown, "guarded", "live_start", "no_gap")).to_have_text(
        "Failed"
    )
    expect(page.get_by_text(re.compile("topic `?guarded`?", re.IGNORECASE)).first).to_be_visible()
