"""A source's ``select``: columns and types known before anything runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.schema import names_and_types, parse_schema
from sources.common.sql.select import EventColumn, OnlySparkError, Selection
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.source_listing import list_splits
from sources.files.listing.split_table import FileListing
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.extensions import needs
from tests.properties import examples

READ = parse_schema(
    {"ts": "bigint", "name": "string", "at": "timestamp", "place": "struct<lat:double>"}
)


def columns(**expressions: str) -> dict[str, str]:
    return names_and_types(Selection("s", expressions).columns(READ))


def refusal(expression: str) -> str:
    with pytest.raises(InputError) as caught:
        columns(x=expression)
    return str(caught.value)


def test_types_are_those_of_columns_casts_and_instants() -> None:
    found = columns(
        id="CAST(regexp_extract(name, '[0-9]+') AS BIGINT)",
        moment="timestamp_millis(ts)",
        other="at",
        lat="CAST(place.lat AS decimal(9,2))",
        short="name::string",
    )
    assert found == {
        "id": "bigint",
        "moment": "timestamp",
        "other": "timestamp",
        "lat": "decimal(9,2)",
        "short": "string",
    }


def test_without_a_select_all_columns_stay() -> None:
    assert Selection("s", {}).columns(READ) == READ


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("upper(name)", "has no declared type"),
        ("ts + 1", "has no declared type"),
        ("CAST(nothing AS int)", "uses a column `nothing`, which does not exist"),
        ("CAST(count(*) AS int)", "is not evaluated row by row"),
        ("CAST(row_number() OVER (ORDER BY ts) AS int)", "is not evaluated row by row"),
        ("CAST((SELECT 1) AS int)", "is not evaluated row by row"),
        ("CAST(name AS", "is not SQL"),
        ("sum(", "is not SQL: a part of it is missing. Line 1, Col: 4."),
        ("CAST(name AS interval)", "is not a column type"),
    ],
)
def test_what_can_not_be_planned_is_refused(expression: str, reason: str) -> None:
    assert reason in refusal(expression)


@needs("expressions")
@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("coalesce(at, timestamp_millis(ts))", "timestamp"),
        ("ts + 1", "bigint"),
        ("upper(name)", "string"),
        ("array(ts)", "<type>"),
        ("from_utc_timestamp(at, 'Europe/Berlin')", "<type>"),
    ],
)
def test_an_expression_without_a_type_is_accepted_as_the_hint_has_it(
    expression: str, kind: str
) -> None:
    with pytest.raises(InputError) as caught:
        columns(x=expression)
    typed = f"CAST({expression} AS {kind})"
    assert typed in caught.value.hint
    if kind != "<type>":
        assert columns(x=typed) == {"x": kind}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("at", EventColumn("at", None)),
        ("timestamp_seconds(ts)", EventColumn("ts", 1_000_000)),
        ("TIMESTAMP_MILLIS(ts)", EventColumn("ts", 1000)),
        ("timestamp_micros(ts)", EventColumn("ts", 1)),
        ("CAST(name AS timestamp)", None),
        ("timestamp_millis(ts * 2)", None),
    ],
)
def test_statistics_tell_of_plain_columns_and_instants(
    expression: str, expected: EventColumn | None
) -> None:
    assert Selection("s", {"t": expression}).event_column("t") == expected


@needs("expressions")
@examples(30)
@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_seconds_become_the_instants_that_they_are(seconds: int) -> None:
    selection = Selection("s", {"t": "timestamp_seconds(n)"})
    (found,) = selection.evaluate("t", pa.record_batch({"n": [seconds]})).cast(pa.int64())
    assert found.as_py() == seconds * 1_000_000


@needs("expressions")
def test_a_value_that_does_not_fit_is_told() -> None:
    selection = Selection("s", {"t": "CAST(to_timestamp(name, 'yyyy-MM-dd') AS timestamp)"})
    with pytest.raises(InputError, match="a form that only Spark reads: yesterday"):
        selection.evaluate("t", pa.record_batch({"name": ["yesterday"]}))


@needs("expressions")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("CAST(raw AS string)", "Zoë\\ 7"),
        ("CAST(concat(CAST(raw AS string), CAST(n AS string)) AS string)", "Zoë\\ 75"),
        ("CAST(h[0].value AS string)", "8"),
        ("CAST(substring(CAST(raw AS string), 6) AS int)", 7),
        ("CAST(text AS string)", "\\x41"),
    ],
)
def test_bytes_are_text_in_utf_8(expression: str, expected: Any) -> None:
    row = {"raw": "Zoë\\ 7".encode(), "n": 5, "h": [{"key": "a", "value": b"8"}], "text": "\\x41"}
    selection = Selection("s", {"x": expression})
    assert selection.evaluate("x", pa.RecordBatch.from_pylist([row])).to_pylist() == [expected]
    if "raw" in expression:
        bad = pa.RecordBatch.from_pylist([{**row, "raw": b"\xff"}])
        with pytest.raises(OnlySparkError, match="bytes that are not UTF-8"):
            selection.evaluate("x", bad)


# With files.


def listed(folder: Path, **changes: Any) -> FileListing:
    document = {"type": "files", "name": "h", "path": "*", "format": "parquet", **changes}
    source = FileSource.model_validate(document)
    stores = Stores(S3Settings())
    return list_splits(source, "t", find_files("h", source.patterns, folder, stores), stores)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()])
def test_integers_are_planned_by_their_statistics(
    tmp_path: Path, kind: pa.DataType, statistics: bool
) -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    seconds = pa.array([int(noon.timestamp()) + n for n in (5, 1, 9)], kind)
    table = pa.table({"sec": seconds, "name": ["a", "b", "c"]})
    pq.write_table(table, tmp_path / "x", write_statistics=statistics)
    found = listed(tmp_path, select={"t": "timestamp_seconds(sec)", "n": "name"})
    (split,) = found.splits.to_pylist()
    noon_us = int(noon.timestamp()) * 1_000_000
    expected = (noon_us + 1_000_000, noon_us + 9_000_000)
    assert (split["event_min_us"], split["event_max_us"]) == expected
    assert names_and_types(found.columns) == {"t": "timestamp", "n": "string"}
    assert found.read.names == ["sec", "name"]


def test_parquets_event_time_must_be_in_its_statistics(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["2024-01-01"]}), tmp_path / "x")
    with pytest.raises(InputError, match="can't be used for") as caught:
        listed(tmp_path, select={"t": "CAST(text AS timestamp)"})
    assert "timestamp_millis(<column>)" in str(caught.value)


def test_an_instant_of_a_text_column_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["2024-01-01"]}), tmp_path / "x")
    with pytest.raises(InputError, match="`text` is of type string"):
        listed(tmp_path, select={"t": "timestamp_millis(text)"})


@needs("text_files")
@needs("expressions")
def test_lines_of_text_become_columns(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("2024-01-01 12:00:00 a\n2024-01-01 13:00:00 b\n")
    select = {"t": "CAST(substring(value, 1, 19) AS timestamp)", "w": "CAST(value AS string)"}
    (split,) = listed(tmp_path, format="text", select=select).splits.to_pylist()
    assert split["event_max_us"] - split["event_min_us"] == 3_600_000_000


OFFSETS = ["2024-01-01T10:00:00+08:00", "2024-01-01T10:00:00-08:00", "2024-01-01T10:00:00.5Z"]


@needs("text_files")
@needs("expressions")
@pytest.mark.parametrize("expression", ["to_timestamp(x)", "x", "substring(x, 0, 40)"])
def test_texts_with_offsets_are_planned_as_the_instants_that_they_are(
    tmp_path: Path, expression: str
) -> None:
    (tmp_path / "x").write_text("".join(f'{{"x": "{text}"}}\n' for text in OFFSETS))
    select = {"t": f"CAST({expression} AS timestamp)"}
    (split,) = listed(
        tmp_path, format="json", schema={"x": "string"}, select=select
    ).splits.to_pylist()
    range_ = [datetime(2024, 1, 1, hour, tzinfo=UTC).timestamp() * 1e6 for hour in (2, 18)]
    assert [split["event_min_us"], split["event_max_us"]] == range_


@needs("text_files")
@needs("expressions")
@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("from_utc_timestamp(CAST(x AS timestamp), 'Asia/Tokyo')", "the function `from_utc_time"),
        ("to_utc_timestamp(CAST(x AS timestamp), 'Asia/Tokyo')", "the function `to_utc_timestamp`"),
        ("CAST(x AS double)", "a cast from double to timestamp"),
        ("to_timestamp(x, 'dd MMM yyyy')", "`to_timestamp` of (string, 'dd MMM yyyy')"),
    ],
)
def test_an_event_time_that_only_spark_computes_is_refused_by_name(
    tmp_path: Path, expression: str, told: str
) -> None:
    (tmp_path / "x").write_text('{"x": "2024-01-01T10:00:00Z"}\n')
    select = {"t": f"CAST({expression} AS timestamp)"}
    with pytest.raises(OnlySparkError, match=r"`select\.t: CAST\(") as caught:
        listed(tmp_path, format="json", schema={"x": "string"}, select=select)
    assert f"only Spark can compute this one: {told}" in caught.value.message
    # The ways out that the hint names.
    assert "to_timestamp(<text>, 'yyyy-MM-dd HH:mm:ss')" in caught.value.hint
    assert "timestamp_millis(<number>)" in caught.value.hint
    (tmp_path / "x").write_text('{"x": "2024-01-01 10:00:00", "n": 1704103200000}\n')
    for way in (
        "CAST(x AS timestamp)",
        "CAST(to_timestamp(x, 'yyyy-MM-dd HH:mm:ss') AS timestamp)",
        "timestamp_millis(n)",
    ):
        schema = {"x": "string", "n": "bigint"}
        found = listed(tmp_path, format="json", schema=schema, select={"t": way})
        assert found.splits["event_max_us"].to_pylist() == [1_704_103_200_000_000]
