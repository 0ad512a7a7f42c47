"""``hybrid init`` for files as other tools write them: what it proposes, runs can read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke
from tests.extensions import needs

TIMES = [f"2026-11-01T00:0{n}:00Z" for n in range(6)]
MOMENTS = [datetime(2026, 11, 1, 0, n, tzinfo=UTC) for n in range(6)]


def call(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    words = ["init", "mine", "--files", "data/*", *arguments, "--folder", str(folder), "--json"]
    result = invoke(words)
    return result.exit_code, json.loads(result.stdout)


def write(folder: Path, name: str, lines: Sequence[str]) -> None:
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / name).write_text("".join(f"{line}\n" for line in lines))


def planned(folder: Path) -> dict[str, Any]:
    """The plan's answer for the history of a pipeline that was written."""
    result = invoke(["plan", str(folder / "mine.yaml"), "--json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)["files"][0]
    return answer


@needs("text_files")
@pytest.mark.parametrize(
    ("value", "note"),
    [
        # DuckDB takes them for a day and for booleans.
        (["12/31/2026", "11/30/2026"], "12/31/2026"),
        (["yes", "no"], "yes"),
        (["t", "f"], "t"),
    ],
)
def test_what_runs_could_not_read_as_its_type_is_text(
    tmp_path: Path, value: list[str], note: str
) -> None:
    rows = [f"{n},{at},{value[n % 2]}" for n, at in enumerate(TIMES)]
    write(tmp_path, "a.csv", ["id,at,v", *rows])
    status, answer = call(tmp_path)
    assert (status, planned(tmp_path)["columns"]["v"]) == (0, "string")
    (said,) = answer["notes"]
    assert f"'{note}'" in said


@needs("text_files")
def test_times_that_runs_could_not_read_are_named_with_the_select_that_reads_them(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a.csv", ["id,at", *(f"{n},11/{n + 1:02}/2026 10:00:00" for n in range(20))])
    status, answer = call(tmp_path)
    assert (status, answer["hint"]) == (2, "Name the column with `--event-time`: one of id, at.")
    status, answer = call(tmp_path, "--event-time", "at")
    assert status == 2
    assert "CAST(to_timestamp(at, 'MM/dd/yyyy HH:mm:ss') AS TIMESTAMP)" in answer["hint"]


@needs("text_files")
@pytest.mark.parametrize(
    ("name", "first", "lines"),
    [
        ("part-1.csv", ["id,at"], ["id,at", *(f"{n},{at}" for n, at in enumerate(TIMES))]),
        ("part-1.json", [], [f'{{"id": {n}, "at": "{at}"}}' for n, at in enumerate(TIMES)]),
    ],
)
def test_the_first_file_that_has_a_row_is_looked_at(
    tmp_path: Path, name: str, first: list[str], lines: list[str]
) -> None:
    write(tmp_path, name.replace("1", "0"), first)
    write(tmp_path, name, lines)
    assert call(tmp_path)[0] == 0
    assert planned(tmp_path)["columns"] == {"id": "bigint", "at": "timestamp"}


def test_the_first_parquet_file_that_has_a_row_tells_the_unit_of_times(tmp_path: Path) -> None:
    rows = pa.table({"id": range(6), "ts": [int(at.timestamp() * 1000) for at in MOMENTS]})
    (tmp_path / "data").mkdir()
    pq.write_table(rows.slice(0, 0), tmp_path / "data" / "part-0.parquet")
    pq.write_table(rows, tmp_path / "data" / "part-1.parquet")
    assert call(tmp_path)[0] == 0
    assert "ts: timestamp_millis(ts)" in (tmp_path / "mine.yaml").read_text()


def test_json_that_is_one_array_is_named_with_the_way_to_lines(tmp_path: Path) -> None:
    write(tmp_path, "a.json", ['[{"id": 1, "at": "2026-11-01T00:00:00Z"}]'])
    status, answer = call(tmp_path)
    assert (status, answer["kind"]) == (2, "input")
    assert "no JSON object in each line" in answer["message"]
    assert "jq -c '.[]'" in answer["hint"]


def test_numbers_of_orders_are_no_times_by_chance(tmp_path: Path) -> None:
    rows = [f"{1_000_000_000 + n},2026-11-0{n + 1}" for n in range(6)]
    write(tmp_path, "a.csv", ["order_no,day", *rows])
    status, answer = call(tmp_path)
    assert status == 2
    assert "no column" in answer["message"]


@pytest.mark.parametrize("prefix", ["_airbyte_", "_FIVETRAN_", "_sdc_"])
def test_what_a_loader_notes_of_its_own_work_is_neither_event_time_nor_key(
    tmp_path: Path, prefix: str
) -> None:
    rows = pa.table({f"{prefix}key": list("abcdef"), "no": range(6), f"{prefix}at": MOMENTS})
    (tmp_path / "data").mkdir()
    pq.write_table(rows, tmp_path / "data" / "a.parquet")
    status, answer = call(tmp_path)
    assert (status, "no column" in answer["message"]) == (2, True)
    pq.write_table(rows.append_column("at", pa.array(MOMENTS)), tmp_path / "data" / "a.parquet")
    status, answer = call(tmp_path)
    assert (status, answer["notes"][0][:20]) == (0, "The key is [no], as ")
    assert "\nevent_time: at\n" in (tmp_path / "mine.yaml").read_text()


def test_whole_numbers_that_snowflake_unloads_as_decimals_may_be_the_key(tmp_path: Path) -> None:
    numbers = pa.array([Decimal(n) for n in range(6)], pa.decimal128(38, 0))
    rows = pa.table({"CUSTOMER": list("abcdef"), "ORDER_ID": numbers, "CREATED_AT": MOMENTS})
    (tmp_path / "data").mkdir()
    pq.write_table(rows, tmp_path / "data" / "a.parquet")
    assert call(tmp_path)[0] == 0
    assert "\nkey: [ORDER_ID]\n" in (tmp_path / "mine.yaml").read_text()


def test_an_id_that_is_there_twice_is_said(tmp_path: Path) -> None:
    rows = [f"{n % 5},{n},{at}" for n, at in enumerate(TIMES)]
    write(tmp_path, "a.csv", ["id,version,at", *rows])
    status, answer = call(tmp_path)
    assert (status, len(answer["notes"])) == (0, 1)
    assert "5 values in 6 rows of a.csv" in answer["notes"][0]
    assert "`mode: merge`" in answer["notes"][0]


@needs("text_files")
def test_members_of_json_that_differ_in_case_are_left_out(tmp_path: Path) -> None:
    lines = [f'{{"no": {n}, "N": {n}, "n": 1, "at": "{at}"}}' for n, at in enumerate(TIMES)]
    write(tmp_path, "a.json", lines)
    status, answer = call(tmp_path)
    assert status == 0
    assert answer["notes"][-1].startswith("Left out: `N`, `n_1`, which have no name of their own")
    assert planned(tmp_path)["columns"] == {"no": "bigint", "at": "timestamp"}


@needs("text_files")
def test_a_member_that_is_an_object_and_something_else_is_left_out(tmp_path: Path) -> None:
    rows = [
        {
            "no": n,
            "at": at,
            "o": {"n": n, "l": [1]},
            "any": [1, {"x": n}][n % 2],
        }
        for n, at in enumerate(TIMES)
    ]
    write(tmp_path, "a.json", [json.dumps(row) for row in rows])
    status, answer = call(tmp_path)
    assert (status, len(answer["notes"])) == (0, 2)
    assert answer["notes"][1].startswith("Left out: `any`, whose values are objects or lists")
    declared = "struct<n:bigint,l:array<bigint>>"
    assert planned(tmp_path)["columns"] == {"no": "bigint", "at": "timestamp", "o": declared}


@needs("text_files")
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        # BigQuery's export, and Athena's results.
        (
            "a.json",
            [f'{{"event_id": "{n}", "ts": "2026-11-01 00:0{n}:00.5 UTC"}}' for n in range(6)],
        ),
        ("a.csv", ['"event_id","ts"', *(f'"{n}","2026-11-01 00:0{n}:00.5 UTC"' for n in range(6))]),
    ],
)
def test_times_in_texts_that_spark_casts_are_the_event_time(
    tmp_path: Path, name: str, lines: list[str]
) -> None:
    write(tmp_path, name, lines)
    status, answer = call(tmp_path)
    assert status == 0, answer
    assert '\n      ts: "CAST(ts AS TIMESTAMP)"\n' in (tmp_path / "mine.yaml").read_text()
    found = planned(tmp_path)
    assert found["columns"]["ts"] == "timestamp"
    assert found["event_min_ms"] == int(MOMENTS[0].timestamp() * 1000) + 500


def test_texts_that_hold_no_times_in_one_row_are_no_event_time(tmp_path: Path) -> None:
    lines = [f'{{"no": {n}, "ts": "2026-11-01 00:0{n}:00 UTC"}}' for n in range(6)]
    write(tmp_path, "a.json", [*lines, '{"no": 7, "ts": "unknown"}'])
    status, answer = call(tmp_path, "--event-time", "ts")
    assert (status, "its type is string" in answer["message"]) == (2, True)


def test_columns_of_parquet_that_spark_has_no_type_for_are_left_out(tmp_path: Path) -> None:
    clock = pa.array([3_600_000_000_000] * 6, pa.time64("ns"))
    rows = pa.table({"no": range(6), "at": MOMENTS, "small": pa.array([255] * 6, pa.uint8())})
    (tmp_path / "data").mkdir()
    pq.write_table(rows.append_column("clock", clock), tmp_path / "data" / "a.parquet")
    status, answer = call(tmp_path)
    assert status == 0
    assert (
        answer["notes"][-1] == "Left out: `clock`, whose values are of a type that runs can't read."
    )
    columns = planned(tmp_path)["columns"]
    assert columns == {"no": "bigint", "at": "timestamp", "small": "smallint"}


@needs("text_files")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("-12345678901234567.89", "decimal(38,2)"),
        ("0.30000000000000004", "double"),
        ("1000000000000000000000.0", "double"),
        ("1.2345678901234567e-300", "double"),
        ("0." + "123456789" * 5, "double"),
    ],
)
def test_numbers_of_csv_with_more_digits_than_a_double_has_are_decimals(
    tmp_path: Path, value: str, kind: str
) -> None:
    rows = [f"{n},{at},{value if n else 1.5}" for n, at in enumerate(TIMES)]
    write(tmp_path, "a.csv", ["id,at,v", *rows, "7,2026-11-01T00:00:00Z,"])
    assert call(tmp_path)[0] == 0
    assert planned(tmp_path)["columns"]["v"] == kind
