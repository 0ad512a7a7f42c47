"""What the log of a table says of it, without a look at its rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from orchestration.progress.table_facts import TableFacts, first_rows, table_facts
from tests.orchestration.supervision.live_case import LiveCase

AT = pa.timestamp("us", "UTC")


def rows(*days: int) -> pa.Table:
    times = [datetime(2024, 1, day, 12, tzinfo=UTC) for day in days]
    return pa.table({"id": list(days), "at": pa.array(times, AT)})


def facts_of(case: LiveCase) -> TableFacts:
    found = table_facts(case.loaded)
    assert found is not None
    return found


def test_the_newest_row_is_that_of_all_files_in_whatever_order_they_came(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    for day in (3, 9, 5):
        write_deltalake(case.loaded.target.url, rows(day), mode="append")
    assert facts_of(case).newest_ms == datetime(2024, 1, 9, 12, tzinfo=UTC).timestamp() * 1000


def test_a_commit_without_rows_is_no_write(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    write_deltalake(case.loaded.target.url, rows(1), mode="append")
    before = facts_of(case)
    table = DeltaTable(case.loaded.target.url)
    start = CommitProperties(app_transactions=[Transaction("start", 1)])
    table.create_write_transaction([], "append", table.schema(), commit_properties=start)
    after = facts_of(case)
    assert after.version == before.version + 1
    assert after.written_ms == before.written_ms


def test_a_table_without_the_event_time_says_nothing_of_its_newest_row(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    write_deltalake(case.loaded.target.url, rows(1).drop_columns(["at"]))
    assert facts_of(case).newest_ms is None


def test_rows_are_shown_whose_dates_python_does_not_have(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    times = pa.array([-62_135_596_800_000_001, 253_402_300_800_000_000]).cast(AT)
    nested = pa.StructArray.from_arrays([times], ["t"])
    table = pa.table({"id": [1, 2], "at": times, "of": nested, "day": times.cast(pa.date32())})
    write_deltalake(case.loaded.target.url, table)
    far = "with dates outside of the years 1 to 9999"
    assert first_rows(case.loaded, table.column_names) == [
        {"id": "1", "at": "0000-12-31 23:59:59.999999Z", "of": far, "day": "0000-12-31"},
        {"id": "2", "at": "10000-01-01 00:00:00.000000Z", "of": far, "day": "10000-01-01"},
    ]
