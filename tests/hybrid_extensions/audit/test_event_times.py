"""Event times that don't count, by the audit's own count: what runs say about them is no proof."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from hybrid_extensions.audit.computed.event_times import Bounds
from orchestration.comparison.report import AuditReport, BadLine
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.config.source.event_time import EventTime
from sources.planning.plan import make_plan
from sources.state.generation import Generation
from tests.hybrid_extensions.audit.audit_case import Case, Row, row, wrong
from tests.hybrid_extensions.audit.live_case import Live, live_case

GOOD = [row(number) for number in range(10)]
FUTURE = row(50, at=datetime(2099, 1, 1, tzinfo=UTC))
PAST = row(51, at=datetime(1970, 1, 1, tzinfo=UTC))
OLD = row(52, at=datetime(1990, 1, 1, tzinfo=UTC))
# Of the day on which row 20 is sent.
END_OF_NEXT_DAY = datetime(2013, 1, 2, 23, 59, 59, 999_000, tzinfo=UTC)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    case = Case(tmp_path)
    case.history([*GOOD, FUTURE, PAST, OLD])
    return case


def files(outside: str, **bounds: str) -> dict[str, Any]:
    history = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}
    return {"sources": [history], "event_time": {"column": "at", "outside": outside, **bounds}}


def tell(
    generation: Generation, source: str, left_out: list[tuple[str, int | None, int]], counted: int
) -> None:
    """Write what a run says that it left out."""
    count = BadRecordCount(source=source, outside=counted)
    generation.replace(bad_count_name(source), count)
    rows = [
        {"place": place, "partition": partition, "offset": offset, "kind": "outside"}
        for place, partition, offset in left_out
    ]
    schema = pa.schema(
        [
            ("place", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("kind", pa.string()),
        ]
    )
    path = str(generation.path(f"quarantine/{source}"))
    write_deltalake(path, pa.Table.from_pylist(rows, schema), mode="overwrite")


def line_of(report: AuditReport) -> BadLine:
    (line,) = (line for line in report.bad_records if line.kind == "outside")
    return line


def planned(case: Case, **changed: Any) -> Generation:
    loaded = case.loaded(**changed)
    make_plan(loaded)
    return loaded.require_generation()


def test_rows_outside_of_the_bounds_that_were_not_to_be_left_out_are_seen(case: Case) -> None:
    case.target([*GOOD, OLD])
    report = case.audit(**files("fail"))
    line = line_of(report)
    assert (report.outcome, wrong(report)) == ("failed", {})
    assert (line.policy, line.found, line.counted, line.outcome) == ("fail", 2, None, "differs")
    # Nothing is left out that is kept.
    report = case.audit(**files("keep"))
    assert (report.bad_records, wrong(report)) == ([], {"missing": 2})
    case.target_again([*GOOD, FUTURE, PAST, OLD])
    assert case.audit(**files("keep")).ok


@pytest.mark.parametrize("policy", ["drop", "quarantine"])
def test_rows_that_were_left_out_are_counted_again(case: Case, policy: str) -> None:
    case.target([*GOOD, OLD])
    changed = files(policy)
    line = line_of(case.audit(**changed))
    assert (line.found, line.outcome, line.reason) == (2, "unknown", "no run has counted")
    generation = planned(case, **changed)
    line = line_of(case.audit(**changed))
    assert (line.found, line.counted, line.lacking, line.outcome) == (2, 0, 2, "differs")
    file = str(case.folder / "history/part-0.parquet")
    tell(generation, "history", [(file, None, 10), (file, None, 11)], 2)
    report = case.audit(**changed)
    assert (line_of(report).outcome, report.outcome) == ("agrees", "passed")
    # A file that arrives later belongs to no plan.
    case.history([FUTURE], "part-1.parquet")
    assert line_of(case.audit(**changed)).outcome == "agrees"


def test_a_row_that_counts_and_was_left_out_is_seen(case: Case) -> None:
    changed = files("drop")
    generation = planned(case, **changed)
    case.target(GOOD)
    file = str(case.folder / "history/part-0.parquet")
    tell(generation, "history", [(file, None, at) for at in (10, 11, 12)], 3)
    report = case.audit(**changed)
    assert (report.outcome, wrong(report)) == ("failed", {"missing": 1})
    assert report.examples["missing"][0].key["id"] == 52
    assert (line_of(report).found, line_of(report).counted) == (2, 3)
    # So is one that was not left out.
    case.target_again([*GOOD, OLD, PAST])
    tell(generation, "history", [(file, None, 10)], 1)
    report = case.audit(**changed)
    assert (report.outcome, wrong(report)) == ("failed", {"unexpected": 1})


def test_declared_bounds_hold_to_the_millisecond(case: Case) -> None:
    last = datetime(2013, 1, 1, 9, tzinfo=UTC)
    inside = row(60, at=last + timedelta(microseconds=999))
    case.history([*GOOD, inside, row(61, at=last + timedelta(milliseconds=1))])
    changed = files("drop", not_before="2013-01-01T01:00:00Z", not_after="2013-01-01T09:00:00Z")
    case.target([*GOOD[1:], inside])
    report = case.audit(**changed)
    assert (wrong(report), line_of(report).found) == ({}, 2)


@pytest.mark.parametrize(
    ("more", "later", "may_have_been"),
    [
        ({}, timedelta(milliseconds=1), True),
        ({}, timedelta(0), False),
        # Bounds of the declaration are asked of no clock.
        ({"not_after": "2014-01-01T00:00:00Z"}, timedelta(days=2), False),
        ({"outside": "keep"}, timedelta(days=2), False),
    ],
)
def test_only_a_time_after_the_day_that_follows_the_records_was_in_the_future(
    more: dict[str, Any], later: timedelta, may_have_been: bool
) -> None:
    declared = EventTime.model_validate({"column": "at", "outside": "drop", **more})
    bounds = Bounds(declared, *declared.bounds_ms(0))
    sent_ms = round(row(20)["at"].timestamp() * 1000)
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute('CREATE TABLE records (_timestamp_ms BIGINT, "at" TIMESTAMPTZ)')
        records = [[sent_ms, END_OF_NEXT_DAY + later], [sent_ms, None], [-1, row(20)["at"]]]
        connection.executemany("INSERT INTO records VALUES (?, ?)", records)
        query = f"SELECT {bounds.may_have_been_ahead} FROM records"
        assert connection.execute(query).fetchall() == [(may_have_been,), (False,), (False,)]


@pytest.fixture
def live(tmp_path: Path, servers: str) -> Live:
    return live_case(tmp_path, servers)


def topic(live: Live, **more: Any) -> dict[str, Any]:
    return {"sources": live.sources(), "event_time": {"column": "at", "outside": "drop", **more}}


def stamped(live: Live, rows: list[Row], ahead: timedelta) -> None:
    """Send rows whose record timestamps lie before their event times."""
    live.send_rows(rows, at=lambda each: each["at"] - ahead)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("ahead", "more", "is_believed"),
    [
        # Sent in the last millisecond of the day before yesterday, and in the first of yesterday.
        (timedelta(hours=45, milliseconds=1), {}, True),
        (timedelta(hours=45), {}, False),
        (timedelta(days=3), {"not_after": "2014-01-01T00:00:00Z"}, False),
    ],
)
def test_a_record_that_was_ahead_of_the_clock_is_believed_only_if_it_can_have_been(
    live: Live, ahead: timedelta, more: dict[str, str], is_believed: bool
) -> None:
    changed = topic(live, **more)
    generation = planned(live.case, **changed)
    stamped(live, [row(20), row(21)], ahead)
    live.send_rows([row(22), FUTURE], at=lambda _: row(22)["at"])
    live.case.target([*GOOD, row(20), row(22)])
    places: list[tuple[str, int | None, int]] = [(live.topic, 0, 1), (live.topic, 0, 3)]
    tell(generation, "live", places, 2)
    report = live.case.audit(**changed)
    (line,) = (each for each in report.bad_records if each.source == "live")
    if is_believed:
        assert (wrong(report), line.found, line.outcome) == ({}, 2, "agrees")
    else:
        assert (wrong(report), line.found, line.outcome) == ({"missing": 1}, 1, "differs")
        assert report.examples["missing"][0].key["id"] == 21


@pytest.mark.kafka
def test_a_record_outside_that_no_run_has_met_is_seen(live: Live) -> None:
    changed = topic(live)
    generation = planned(live.case, **changed)
    live.send_rows([row(20), FUTURE, PAST], at=lambda _: row(20)["at"])
    live.case.target([*GOOD, row(20)])
    tell(generation, "live", [(live.topic, 0, 1)], 1)
    report = live.case.audit(**changed)
    (line,) = (each for each in report.bad_records if each.source == "live")
    assert (report.outcome, wrong(report)) == ("failed", {})
    assert (line.found, line.counted, line.lacking, line.outcome) == (2, 1, 1, "differs")


def test_a_range_of_times_hides_no_row_that_does_not_count(case: Case) -> None:
    changed = files("drop")
    changed["sources"][0]["time_range"] = {"since": "2013-01-01T02:00:00Z"}
    generation = planned(case, **changed)
    case.target(GOOD[2:])
    file = str(case.folder / "history/part-0.parquet")
    tell(generation, "history", [(file, None, 10), (file, None, 11)], 2)
    report = case.audit(**changed)
    assert (wrong(report), line_of(report).found, report.outcome) == ({}, 2, "passed")
