"""What the log of a table says of it, without a look at its rows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from orchestration.progress import table_facts as facts_module
from orchestration.progress.table_facts import TableFacts, first_rows, table_facts
from sources.errors import InputError, UnavailableError
from sources.storage.folder import Folder
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


def test_rows_are_shown_with_times_that_no_line_breaks(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    at = datetime(2026, 11, 24, 0, 0, 9, 23_000, tzinfo=UTC)
    kinds = [("at", AT), ("local", pa.timestamp("us")), ("day", pa.date32()), ("n", pa.int64())]
    row = {"at": at, "local": at.replace(tzinfo=None), "day": at.date(), "n": None}
    write_deltalake(case.loaded.target.url, pa.Table.from_pylist([row], pa.schema(kinds)))
    [shown] = first_rows(case.loaded, list(row))
    assert not any(re.search("[ -]", text) for text in shown.values())
    assert {name: text.replace("\N{NO-BREAK SPACE}", " ") for name, text in shown.items()} == {
        "at": "24 Nov 2026 00:00:09.023 UTC",
        "local": "24 Nov 2026 00:00:09.023",
        "day": "24 Nov 2026",
        "n": "NULL",
    }


def test_rows_are_shown_as_json_has_their_values_not_as_python_has_them(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    rows = pa.table({"ok": [True], "of": [{"a": None, "b": [False]}], "word": ["True"]})
    write_deltalake(case.loaded.target.url, rows)
    assert first_rows(case.loaded, rows.column_names) == [
        {"ok": "true", "of": '{"a": null, "b": [false]}', "word": "True"}
    ]


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


def test_a_null_among_dates_that_python_does_not_have_is_shown_as_a_null(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    times = pa.array([None, 0, 253_402_300_800_000_000]).cast(AT)
    nested = pa.array([None, {"t": 0}, {"t": 253_402_300_800_000_000}], pa.struct([("t", AT)]))
    table = pa.table({"at": times, "of": nested})
    write_deltalake(case.loaded.target.url, table)
    near = "1 Jan 1970 00:00:00 UTC".replace(" ", "\N{NO-BREAK SPACE}")
    assert first_rows(case.loaded, table.column_names) == [
        {"at": "NULL", "of": "NULL"},
        {"at": near, "of": '{"t": "1970-01-01 00:00:00+00:00"}'},
        {"at": "10000-01-01 00:00:00.000000Z", "of": "with dates outside of the years 1 to 9999"},
    ]


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_store_that_does_not_answer_is_no_table_that_can_t_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_silent: bool
) -> None:
    case = LiveCase(tmp_path)
    write_deltalake(case.loaded.target.url, rows(1))

    def fail(*_: object) -> None:
        # As delta-rs raises it.
        raise Exception("error sending request")

    def ask(_: Folder, name: str) -> bool:
        if is_silent and name == "_delta_log":
            raise UnavailableError("The store does not answer.", "Wait.")
        return True

    monkeypatch.setattr(facts_module, "query_rows", fail)
    monkeypatch.setattr(Folder, "exists", ask)
    with pytest.raises(UnavailableError if is_silent else InputError):
        first_rows(case.loaded, ["id"])
