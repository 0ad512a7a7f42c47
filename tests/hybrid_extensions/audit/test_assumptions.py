"""What the audit assumes: for each assumption a run that errs in it, and the audit that sees it.

The table in docs/audit.md names these tests, and those of the other modules here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.extensions import needs
from tests.hybrid_extensions.audit.audit_case import COLUMNS, SCHEMA, Case, Row, row, wrong
from tests.hybrid_extensions.audit.live_case import ROWS, Live, as_json, live_case

EVENTS = [row(number) for number in range(20)]
Damage = Callable[[list[Row]], list[Row]]


def replaced(number: int, **changed: Any) -> Damage:
    return lambda rows: [*rows[:number], {**rows[number], **changed}, *rows[number + 1 :]]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Two files, and a third one that overlaps with them by five rows."""
    case = Case(tmp_path)
    case.history(EVENTS[:7], "part-0.parquet")
    case.history(EVENTS[7:15], "part-1.parquet")
    case.late(EVENTS[10:])
    return case


@pytest.mark.parametrize(
    ("damage", "counts"),
    [
        pytest.param(lambda rows: rows[:12] + rows[13:], {"missing": 1}, id="a row in a hole"),
        pytest.param(lambda rows: rows[:7] + rows[15:], {"missing": 8}, id="a file"),
        pytest.param(lambda rows: rows[:3] + rows[10:], {"missing": 7}, id="a range of times"),
        pytest.param(lambda rows: [*rows, *rows[10:15]], {"duplicated": 5}, id="the overlap twice"),
        pytest.param(lambda rows: rows[:15], {"missing": 5}, id="everything after the seam"),
        pytest.param(lambda rows: [*rows, row(99)], {"unexpected": 1}, id="a row from elsewhere"),
        pytest.param(replaced(3, delay=None), {"different": 1}, id="a null"),
        pytest.param(replaced(3, delay=1.0000000001), {"different": 1}, id="a rounded value"),
        pytest.param(
            replaced(3, at=EVENTS[3]["at"] + timedelta(microseconds=1)),
            {"different": 1},
            id="a microsecond",
        ),
        pytest.param(
            lambda rows: [{**each, "at": each["at"] + timedelta(hours=1)} for each in rows],
            {"different": 20},
            id="a local time zone",
        ),
        pytest.param(
            lambda rows: [*rows[:5], *({**each, "id": None} for each in rows[5:6]), *rows[6:]],
            {"missing": 1, "unexpected": 1},
            id="a key that became null",
        ),
    ],
)
def test_an_error_of_a_run_is_seen(case: Case, damage: Damage, counts: dict[str, int]) -> None:
    case.target(EVENTS)
    assert case.audit().outcome == "passed"
    case.target_again(damage(EVENTS))
    report = case.audit()
    assert (report.outcome, wrong(report)) == ("failed", counts)


def declared(**more: Any) -> dict[str, Any]:
    history = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}
    return {"sources": [{**history, **more}]}


def test_a_run_that_reads_another_range_than_declared_is_seen(case: Case) -> None:
    since, until = (f"{EVENTS[at]['at']:%Y-%m-%dT%H:%M:%SZ}" for at in (2, 12))
    changed = declared(time_range={"since": since, "until": until})
    case.target(EVENTS[2:12])
    assert case.audit(**changed).ok
    # The first row after its end, and the first row of it.
    case.target_again(EVENTS[3:13])
    assert wrong(case.audit(**changed)) == {"missing": 1, "unexpected": 1}


@needs("expressions")
def test_a_run_that_evaluates_select_in_another_way_is_seen(case: Case) -> None:
    select = {**{name: name for name in COLUMNS}, "seats": "CAST(seats / 2 AS int)"}
    changed = declared(select=select)
    case.target([{**each, "seats": each["seats"] // 2} for each in EVENTS[:15:2]])
    case.history(EVENTS[:15:2], "part-0.parquet")
    (case.folder / "history/part-1.parquet").unlink()
    assert case.audit(**changed).ok
    # As integers, or before the conversion.
    case.target_again(EVENTS[:15:2])
    assert wrong(case.audit(**changed)) == {"different": 8}


def test_a_timestamp_without_zone_that_a_run_takes_for_local_is_seen(case: Case) -> None:
    naive = SCHEMA.set(0, pa.field("at", pa.timestamp("us")))
    for file in (case.folder / "history").iterdir():
        rows = [{**each, "at": each["at"].replace(tzinfo=None)} for each in EVENTS[:15]]
        pq.write_table(pa.Table.from_pylist(rows, naive), file)
    (case.folder / "history/part-1.parquet").unlink()
    case.target(EVENTS[:15])
    assert case.audit(**declared()).ok
    case.target_again([{**each, "at": each["at"] - timedelta(hours=2)} for each in EVENTS[:15]])
    assert wrong(case.audit(**declared())) == {"different": 15}


def test_a_file_that_a_run_takes_for_hidden_is_seen(case: Case) -> None:
    # Names that begin with `_` or `.` are no data; all others are.
    for name in ("_part.parquet", ".part.parquet"):
        case.history([row(60)], name)
    case.history([row(61)], "part_.parquet")
    case.target([*EVENTS[:15], row(61)])
    assert case.audit(**declared()).ok
    case.target_again(EVENTS[:15])
    assert wrong(case.audit(**declared())) == {"missing": 1}


def test_a_column_that_is_wrong_but_not_computed_is_not_called_right(case: Case) -> None:
    schema = SCHEMA.append(pa.field("class", pa.string()))
    case.target([{**each, "class": "wrong"} for each in EVENTS], schema)
    assert case.audit().outcome == "unknown"
    right = case.sql("SELECT *, 'right' AS class FROM input")
    assert wrong(case.audit(audit=right)) == {"different": 20}


@pytest.fixture
def live(tmp_path: Path, servers: str) -> Live:
    return live_case(tmp_path, servers)


@pytest.mark.kafka
def test_rows_of_a_transaction_that_was_aborted_are_seen(live: Live) -> None:
    live.send(as_json(ROWS[10:15]))
    live.send(as_json(ROWS[15:18]), commit=False)
    live.case.target(ROWS[:15])
    assert wrong(live.case.audit(sources=live.sources())) == {}
    live.case.target_again(ROWS[:18])
    assert wrong(live.case.audit(sources=live.sources())) == {"unexpected": 3}


@pytest.mark.kafka
def test_rows_whose_records_kafka_has_deleted_are_seen(live: Live) -> None:
    live.send_rows(ROWS[10:20])
    live.delete_before(3)
    # Nothing but the table says that they were ever there.
    live.case.target(ROWS[:20])
    report = live.case.audit(sources=live.sources())
    assert (report.outcome, wrong(report)) == ("failed", {"unexpected": 3})


@pytest.mark.kafka
def test_a_partition_that_a_run_never_read_is_seen(live: Live) -> None:
    live.send_rows(ROWS[10:15])
    live.send_rows(ROWS[15:20], partition=1)
    live.case.target(ROWS[:15])
    report = live.case.audit(sources=live.sources())
    assert (report.outcome, wrong(report)) == ("failed", {"missing": 5})
