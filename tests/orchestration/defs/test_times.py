"""Times that are in UTC say so: those that Dagster itself shows are of the reader's zone."""

from __future__ import annotations

from orchestration.defs.show import metadata
from orchestration.progress.plan_preview import Preview
from orchestration.progress.plan_tables import plan_tables
from tests.orchestration.progress.plan_case import end, files, plan, times, topic


def test_the_page_of_history_says_in_utc_where_it_ends() -> None:
    shown = metadata.end(end(), None)
    assert shown["end"] == "30 Sep 2013 23:56:00 UTC"
    assert shown["complete through"] == (
        "29 Sep 2013 23:56:00 UTC, 1 d before its end: rows of then may still come"
    )


def test_a_plan_says_in_utc_between_which_times_its_rows_are() -> None:
    made = plan(files(times=times(outside=3)), topic())
    seen = Preview.model_construct(schemas={}, files={}, previous=None, changes=[])
    tables = {each.title: each.rows for each in plan_tables(made, seen)}
    [history, _] = tables["event times"]
    assert (history["lowest (UTC)"], history["highest (UTC)"]) == (
        "1 Jan 2013 00:00",
        "30 Sep 2013 23:56",
    )
    [outside] = tables["rows outside of the bounds"]
    assert (outside["from (UTC)"], outside["to (UTC)"]) == ("1 Jan 1970 00:00",) * 2
