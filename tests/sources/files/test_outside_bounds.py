"""Rows whose event time does not count are found one by one, whatever the format of their file."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sources.common.schema import parse_schema
from sources.common.sql.select import EventColumn
from sources.common.times import to_us
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.format_registry import format_of
from sources.files.outside_bounds import (
    PlannedParquetRows,
    find_outside,
    outside_of_parquet,
    refuse_outside,
)
from sources.formats.file_regions import Region, cut_regions
from sources.formats.lines import BadRow
from sources.formats.open_file import read_region
from sources.formats.row_check import RowCheck, as_json
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.extensions import needs
from tests.properties import examples
from tests.sources.files.dirty_files import (
    EPOCH,
    FORMATS,
    FUTURE,
    WRONG,
    minute,
    raw_rows,
    write_files,
)

STORES = Stores(S3Settings())
BOUNDS = (to_us(minute(-60)), to_us(minute(10_000)))


def source(form: str) -> FileSource:
    declared = {"type": "files", "name": "h", "path": "in/*", **FORMATS[form]}
    return FileSource.model_validate(declared)


def counts(at: datetime | None) -> bool:
    return at is None or BOUNDS[0] <= to_us(at) <= BOUNDS[1]


def read(folder: Path, form: str, size: int) -> tuple[list[pa.RecordBatch], list[BadRow]]:
    """Read files region by region; returns the rows that count, and the others."""
    declared, reader = source(form), format_of(source(form))
    columns = parse_schema(
        {"value": "string"} if form == "text" else {"id": "bigint", "at": "timestamp"}
    )
    outside: list[BadRow] = []
    check = RowCheck(find_outside(declared, "at", BOUNDS), outside.append)
    batches: list[pa.RecordBatch] = []
    for path in sorted((folder / "in").iterdir()):
        bytes_of = path.stat().st_size
        for first, length in cut_regions(bytes_of, size if reader.splits else bytes_of):
            region = Region(str(path), first, length, bytes_of)
            batches += read_region(reader, region, columns, STORES, check=check)
    return batches, outside


def ids(form: str, batches: list[pa.RecordBatch]) -> list[int]:
    if form == "text":
        return [int(text.split()[1]) for batch in batches for text in batch["value"].to_pylist()]
    return [number for batch in batches for number in batch["id"].to_pylist()]


times = st.integers(0, 9_000).map(minute) | st.sampled_from([FUTURE, EPOCH])


@needs("text_files")
@needs("orc")
@needs("expressions")
@pytest.mark.parametrize("form", ["json", "csv", "avro", "orc", "text"])
@examples(6, suppress_health_check=[HealthCheck.too_slow])
@given(files=st.lists(st.lists(times, min_size=1, max_size=30), min_size=1, max_size=2))
def test_rows_that_count_are_read_and_each_other_one_is_handed_over_once(
    tmp_path_factory: pytest.TempPathFactory, form: str, files: list[list[datetime]]
) -> None:
    folder = tmp_path_factory.mktemp("f")
    write_files(folder, form, files)
    batches, outside = read(folder, form, 200)
    every = raw_rows(folder, form)
    assert ids(form, batches) == [number for number, at in every if counts(at)]
    assert len(outside) == sum(not counts(at) for _, at in every)
    assert max(Counter((row.path, row.offset) for row in outside).values(), default=1) == 1


@needs("text_files")
@pytest.mark.parametrize("form", ["json", "csv"])
def test_the_place_of_a_line_is_its_first_byte(tmp_path: Path, form: str) -> None:
    write_files(tmp_path, form, [[minute(0), FUTURE, minute(1), *WRONG, minute(2)]])
    (path,) = (tmp_path / "in").iterdir()
    # Blank lines are no rows, and a bad one does not shift the places of others.
    content = path.read_bytes().replace(b"\n", b"\r\n\r\n", 3) + b"no row at all\n"
    path.write_bytes(content)
    bad: list[BadRow] = []
    outside: list[BadRow] = []
    columns = parse_schema({"id": "bigint", "at": "timestamp"})
    check = RowCheck(find_outside(source(form), "at", BOUNDS), outside.append)
    region = Region(str(path), 0, len(content), len(content))
    rows = list(read_region(format_of(source(form)), region, columns, STORES, bad.append, check))
    assert ids(form, rows) == [0, 2, 6]
    assert len(bad) == 1
    assert len(outside) == 4
    for row in outside:
        assert content[row.offset :].startswith(row.content)
        assert content[row.offset - 1 : row.offset] == b"\n"
        assert row.content.strip() == row.content


@needs("text_files")
@needs("expressions")
def test_an_event_time_that_select_computes_decides(tmp_path: Path) -> None:
    write_files(tmp_path, "text", [[minute(0), FUTURE]])
    _, outside = read(tmp_path, "text", 10_000)
    (row,) = outside
    assert json.loads(row.content)["value"].startswith("2099")
    assert "its event time 2099-06-01T00:00:00Z is outside of" in row.reason


def test_a_refusal_names_file_place_and_ways_out(tmp_path: Path) -> None:
    row = BadRow(f"{tmp_path}/a.json", 70, b'{"id": 1}', "its event time 2099-06-01T00:00:00Z is …")
    with pytest.raises(InputError) as caught:
        refuse_outside(row)
    assert f"{tmp_path}/a.json, byte 70: its event time 2099" in caught.value.message
    assert "outside: quarantine" in (caught.value.hint or "")


def test_outside_rows_of_parquet_are_those_of_the_raw_files(tmp_path: Path) -> None:
    write_files(tmp_path, "parquet", [[minute(0), FUTURE, None], [EPOCH, minute(1), *WRONG]])
    found = []
    for path in sorted((tmp_path / "in").iterdir()):
        parts = outside_of_parquet(
            PlannedParquetRows(str(path), "day=1"),
            ["id", "at", "day"],
            EventColumn("at", None),
            BOUNDS,
            STORES,
        )
        found += [(row, json.loads(row.content)) for part in parts for row in part]
    expected = [number for number, at in raw_rows(tmp_path, "parquet") if not counts(at)]
    assert [content["id"] for _, content in found] == expected
    assert {content["day"] for _, content in found} == {"1"}
    assert [row.offset for row, _ in found] == [1, 0, 2, 3, 4]


def test_times_that_python_has_not_are_texts_in_nested_columns_too() -> None:
    far = pa.array([300_000_000_000_000_000], pa.timestamp("us", "UTC"))
    inside = pa.StructArray.from_arrays([far], ["when"])
    (content,) = as_json(pa.table({"inside": inside, "each": far}))
    told = json.loads(content)
    assert told["each"] == told["inside"]["when"] == "11476-08-15 05:20:00.000000Z"
