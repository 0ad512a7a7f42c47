"""The journey of somebody who has only a browser: launch, watch, approve, see what is wrong."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from orchestration.backlog import wait_until_caught_up
from orchestration.progress.phases import RowsByDay, rows_by_day
from sources.planning.context import PipelineContext
from sources.serving import read_serving
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
    expect(page.get_by_text("a guess from the benchmarks for Parquet")).to_be_visible()

    page.goto(shown.asset("flights", "progress"))
    for name in ("progress", "rows by day"):
        picture = pages.open_markdown(page, name)
        # The UI may show a broken picture as well.
        assert picture.evaluate("it => it.complete && it.naturalWidth > 500")
        page.keyboard.press("Escape")
        expect(picture).to_be_hidden()

    for name in ("no_gap", "no_duplicates", "retention", "schema"):
        expect(pages.check_result(page, shown, "flights", "live_handover", name)).to_have_text(
            "Passed"
        )


@pytest.mark.long
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
    expect(pages.check_result(page, shown, "guarded", "live_handover", "no_gap")).to_have_text(
        "Failed"
    )
    expect(page.get_by_text(re.compile("topic `?guarded`?", re.IGNORECASE)).first).to_be_visible()


@pytest.mark.long
def test_ranges_are_made_anew_and_a_new_generation_is_promoted_and_rolled_back(
    page: Page, shown: Site
) -> None:
    loaded = shown.pipelines["versioned"]
    pages.materialize_all(page, shown, "versioned")
    pages.await_end(page, "Success")

    page.goto(shown.asset("versioned", "ranges", "partitions"))
    # History ends with September; flights may reach it up to a day late.
    expect(page.get_by_text("Materialized (5)")).to_be_visible()
    expect(page.get_by_text("Missing (2)")).to_be_visible()
    pages.launch_partitions(page, shown, "versioned", "2013-09-25", "2013-09-26")
    expect(page.get_by_text("100% completed")).to_be_visible()
    page.goto(f"{shown.asset('versioned', 'ranges', 'partitions')}&partition=2013-09-26")
    days = rows_by_day(loaded)
    assert isinstance(days, RowsByDay)
    made_anew = sum(rows for day, rows in days.counts if day.day in {25, 26})
    expect(page.get_by_role("row").filter(has_text="rows replaced")).to_contain_text(str(made_anew))

    pages.fill_in(page, shown, "versioned", pages.plan_form("versioned", generation="NEW"))
    pages.launch(page)
    pages.await_end(page, "Success")
    wait_until_caught_up(PipelineContext.require(loaded))
    assert read_serving(loaded).generation == "g1"
    for job, serves in (("promote", "g2"), ("rollback", "g1")):
        page.goto(f"{shown.job(f'versioned_{job}')}/playground")
        pages.launch(page)
        pages.await_end(page, "Success")
        expect(page.get_by_text(f"Readers see generation {serves}").first).to_be_visible()
        assert read_serving(loaded).generation == serves
