"""The journeys of somebody who has only a browser: build, watch, pause, approve, replace."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from hybrid_extensions.report.plot_data import RowsByDay, rows_by_day
from orchestration.supervision.status import status
from sources.serving import read_serving
from tests.browser import pages
from tests.browser.site import Site

pytestmark = [
    pytest.mark.browser,
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.timeout(1800),
]

# The sensor looks every 10 s.
_WITHIN_A_MINUTE_MS = 60_000


def test_four_clicks_lead_from_the_start_page_to_a_live_table(page: Page, shown: Site) -> None:
    clicks = pages.Clicks(page)
    page.goto(shown.url)
    pages.open_job(page, "flights")
    pages.press_materialize_all(page)
    pages.await_end(page, "Success")
    assert 1 <= clicks.count <= 4

    page.goto(shown.asset("flights", "table"))
    card = page.get_by_role("row").filter(has_text=re.compile("^now"))
    expect(card).to_contain_text("Healthy")
    expect(card).to_contain_text("serving g1")
    assert page.get_by_text("Unsynced").count() == 0
    expect(page.get_by_text("Row count", exact=True)).to_be_visible()
    column = page.get_by_role("row").filter(has_text=re.compile("^scheduled_departure.*timestamp"))
    expect(column.first).to_be_visible()
    healthy = pages.check_result(page, shown, "flights", "table", "healthy")
    expect(healthy).to_have_text("Passed")

    page.goto(shown.asset("flights", "plan"))
    expect(page.get_by_role("row").filter(has_text="summary")).to_contain_text("Reads 7 files")
    expect(page.get_by_text("a guess from the benchmarks for Parquet")).to_be_visible()

    page.goto(shown.asset("flights", "history"))
    end = page.get_by_role("row").filter(has_text=re.compile("^end"))
    expect(end).to_contain_text("30 Sep 2013 23:56:00 UTC")

    page.goto(shown.asset("flights", "progress"))
    for name in ("progress", "rows by day"):
        picture = pages.open_markdown(page, name)
        # The UI may show a broken picture as well.
        assert picture.evaluate("it => it.complete && it.naturalWidth > 500")
        page.keyboard.press("Escape")
        expect(picture).to_be_hidden()

    assert page.get_by_text("Unsynced").count() == 0
    for name in ("no_gap", "no_duplicates", "retention", "schema"):
        expect(pages.check_result(page, shown, "flights", "live_handover", name)).to_have_text(
            "Passed"
        )


def test_three_clicks_pause_a_pipeline_which_then_is_neither_green_nor_red(
    page: Page, shown: Site
) -> None:
    if status(shown.pipelines["flights"]).live is None:
        pages.materialize_all(page, shown, "flights")
        pages.await_end(page, "Success")
    clicks = pages.Clicks(page)
    page.goto(shown.job("flights_control"))
    pages.open_launchpad(page)
    pages.choose_action(page, "flights_control", "PAUSE")
    pages.launch(page)
    pages.await_end(page, "Success")
    assert 1 <= clicks.count <= 3

    healthy = pages.check_result(page, shown, "flights", "table", "healthy")
    paused = page.get_by_text(re.compile("^Paused")).first
    expect(paused).to_be_visible(timeout=_WITHIN_A_MINUTE_MS)
    expect(healthy).to_have_text("Failed")
    pages.expect_warning(healthy)

    pages.fill_in(page, shown, "flights_control", pages.form("flights_control", action="RESUME"))
    pages.launch(page)
    pages.await_end(page, "Success")
    healthy = pages.check_result(page, shown, "flights", "table", "healthy")
    expect(healthy).to_have_text("Passed")


def test_a_chain_waits_for_its_approval_and_then_goes_on_by_itself(page: Page, shown: Site) -> None:
    pages.materialize_all(page, shown, "guarded")
    pages.await_end(page, "Success")
    page.goto(f"{shown.url}/runs")
    expect(page.get_by_text("hybrid/waits_for: approval")).to_be_visible()
    approved = pages.check_result(page, shown, "guarded", "plan", "approved")
    expect(approved).to_have_text("Failed")
    pages.expect_warning(approved)
    expect(page.get_by_text("Waiting for approval.").first).to_be_visible()
    expect(page.get_by_text("guarded_control").first).to_be_visible()

    form = pages.form("guarded_control", action="APPROVE", by="Ada")
    pages.fill_in(page, shown, "guarded_control", form)
    pages.launch(page)
    pages.await_end(page, "Success")
    approved = pages.check_result(page, shown, "guarded", "plan", "approved")
    expect(approved).to_have_text("Passed")
    expect(page.get_by_text(re.compile("Approved by Ada at")).first).to_be_visible()

    healthy = pages.check_result(page, shown, "guarded", "table", "healthy")
    expect(healthy).to_have_text("Passed", timeout=pages.RUN_MS)
    expect(page.get_by_text(re.compile("^Healthy")).first).to_be_visible()
    page.goto(f"{shown.url}/runs")
    expect(page.get_by_text("hybrid/waits_for: nothing")).to_be_visible()


def test_a_gap_is_red_with_its_reason(page: Page, shown: Site) -> None:
    for step in ("plan", "history"):
        pages.materialize(page, shown, "gapped", step)
        pages.await_end(page, "Success")
    # Between history and the hand-over Kafka deletes what comes next.
    shown.delete_records("gapped")
    pages.materialize_all(page, shown, "gapped")
    pages.await_end(page, "Failure")
    expect(pages.check_result(page, shown, "gapped", "live_handover", "no_gap")).to_have_text(
        "Failed"
    )
    expect(page.get_by_text(re.compile("topic `?gapped`?", re.IGNORECASE)).first).to_be_visible()


def test_a_range_is_recomputed_and_a_new_version_is_built_promoted_and_rolled_back(
    page: Page, shown: Site
) -> None:
    loaded = shown.pipelines["versioned"]
    pages.materialize_all(page, shown, "versioned")
    pages.await_end(page, "Success")

    page.goto(shown.asset("versioned", "ranges", "partitions"))
    # History ends with September, and flights may reach it up to a day late: the rest is live.
    expect(page.get_by_text("Materialized (7)")).to_be_visible()
    pages.launch_partitions(page, shown, "versioned", "2013-09-25", "2013-09-26")
    expect(page.get_by_text("100% completed")).to_be_visible()
    page.goto(f"{shown.asset('versioned', 'ranges', 'partitions')}&partition=2013-09-26")
    days = rows_by_day(loaded)
    assert isinstance(days, RowsByDay)
    recomputed = sum(rows for day, rows in days.counts if day.day in {25, 26})
    replaced = page.get_by_role("row").filter(has_text="rows replaced")
    expect(replaced).to_contain_text(str(recomputed))

    job = "versioned_generation"
    clicks = pages.Clicks(page)
    page.goto(shown.url)
    pages.open_job(page, job)
    pages.open_launchpad(page)
    pages.choose_action(page, job, "RERUN", promote="NEVER")
    pages.launch(page)
    pages.await_end(page, "Success")
    assert read_serving(loaded).generation == "g1"
    for action, text in (("COMPARE", "g2 against g1"), ("PROMOTE", "Readers see generation g2")):
        clicks.go_back()
        pages.choose_action(page, job, action)
        pages.launch(page)
        pages.await_end(page, "Success")
        expect(page.get_by_text(text).first).to_be_visible()
    assert 1 <= clicks.count <= 12
    assert read_serving(loaded).generation == "g2"
    expect(pages.check_result(page, shown, "versioned", "table", "same_rows")).to_have_text(
        "Passed"
    )

    pages.fill_in(page, shown, job, pages.form(job, action="ROLLBACK"))
    pages.launch(page)
    pages.await_end(page, "Success")
    expect(page.get_by_text("Readers see generation g1").first).to_be_visible()
    assert read_serving(loaded).generation == "g1"
