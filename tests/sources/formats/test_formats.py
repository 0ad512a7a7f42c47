"""Every row of a file is read once, wherever the file is cut into regions; in every format."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hybrid_extensions.orc.reader import Orc
from hybrid_extensions.text_files.csv.reader import Csv
from hybrid_extensions.text_files.json.lines import JsonLines
from hybrid_extensions.text_files.text import Text
from sources.common.schema import parse_schema
from sources.errors import InputError
from sources.formats.base import TEXT_COLUMNS, Format
from sources.formats.compression import open_decompressed
from sources.formats.csv_options import CsvOptions
from sources.formats.file_regions import Region, cut_regions, next_record_start
from sources.formats.open_file import read_region
from sources.storage.base import LocalStorage
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.extensions import LACKING
from tests.properties import examples

STORES = Stores(S3Settings())
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
COLUMNS = parse_schema({"id": "bigint", "name": "string", "at": "timestamp"})
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
Row = dict[str, Any]
# Long names make records that are larger than a region.
names = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=9),
    st.integers(50, 300).map(lambda n: "n" * n),
)
tables = st.lists(
    st.builds(
        lambda name, seconds: {"name": name, "at": NOON + timedelta(seconds=seconds)},
        names,
        st.integers(-1000, 1000),
    ),
    max_size=30,
).map(lambda rows: [{"id": n, **row} for n, row in enumerate(rows)])


def as_json(rows: list[Row]) -> bytes:
    lines = [json.dumps({**row, "at": row["at"].isoformat(), "more": 1}) for row in rows]
    return "\n".join(lines).encode()


def as_csv(rows: list[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["name", "more", "at", "id"])
    writer.writerows([row["name"], 1, row["at"].isoformat(), row["id"]] for row in rows)
    return text.getvalue().encode()


def as_avro(rows: list[Row]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, AVRO, rows, sync_interval=200)
    return out.getvalue()


def avro() -> Format:
    from hybrid_extensions.avro.file_reader import Avro  # noqa: PLC0415 - an extension

    return Avro()


def as_csv_form() -> Format:
    return Csv(CsvOptions())


FORMS: list[tuple[Callable[[], Format], Callable[[list[Row]], bytes]]] = [
    (JsonLines, as_json),
    (as_csv_form, as_csv),
    *([] if "avro" in LACKING else [(avro, as_avro)]),
]


def all_regions(path: Path, form: Format, edges: list[int], columns: pa.Schema) -> list[Row]:
    size = path.stat().st_size
    places = sorted({0, size, *(edge % (size + 1) for edge in edges)})
    found: list[Row] = []
    for low, high in pairwise(places):
        region = Region(str(path), low, high - low, size)
        for batch in read_region(form, region, columns, STORES):
            assert batch.schema.equals(columns)
            found += batch.to_pylist()
    return found


@pytest.mark.parametrize(("make", "write"), FORMS, ids=lambda made: made.__name__)
@examples(60)
@given(rows=tables, edges=st.lists(st.integers(0, 10_000), max_size=8))
def test_regions_together_hold_each_row_once_wherever_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory,
    make: Callable[[], Format],
    write: Callable[[list[Row]], bytes],
    rows: list[Row],
    edges: list[int],
) -> None:
    form, path = make(), tmp_path_factory.mktemp("cut") / "file"
    path.write_bytes(write(rows))
    found = all_regions(path, form, edges, COLUMNS)
    if isinstance(form, Csv):
        rows = [{**row, "name": row["name"] or None} if not row["name"] else row for row in rows]
        found = [{**row, "name": row["name"] or None} for row in found]
    assert sorted(found, key=lambda row: row["id"]) == rows


@examples(60)
@given(lines=st.lists(names), edges=st.lists(st.integers(0, 5_000), max_size=8))
def test_lines_of_text_are_read_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], edges: list[int]
) -> None:
    path = tmp_path_factory.mktemp("text") / "file"
    path.write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    found = all_regions(path, Text(), edges, TEXT_COLUMNS)
    assert [row["value"] for row in found] == lines


@examples(200)
@given(
    content=st.binary(max_size=200),
    mark=st.binary(min_size=1, max_size=4),
    at=st.integers(0, 220),
)
def test_a_border_is_the_first_place_behind_a_mark(content: bytes, mark: bytes, at: int) -> None:
    behind = [
        place + len(mark)
        for place in range(len(content))
        if content[place:].startswith(mark) and place + len(mark) >= at
    ]
    file = pa.BufferReader(content)
    assert next_record_start(file, at, mark, len(content)) == min(behind, default=len(content))


def test_a_border_across_blocks_is_found() -> None:
    content = b"x" * ((1 << 16) - 2) + b"MARK" + b"rest"
    assert (
        next_record_start(pa.BufferReader(content), 10, b"MARK", len(content)) == len(content) - 4
    )


@given(size=st.integers(0, 10**12), limit=st.integers(10**8, 10**9))
def test_regions_cover_a_file_and_none_is_larger_than_the_limit(size: int, limit: int) -> None:
    regions = cut_regions(size, limit)
    assert regions[0][0] == 0
    assert sum(length for _, length in regions) == size
    assert all(length <= limit for _, length in regions)
    ends = [offset + length for offset, length in regions]
    assert [offset for offset, _ in regions[1:]] == ends[:-1]


def in_two_streams(content: bytes) -> bytes:
    """As files have it that were appended to each other."""
    return zlib.compress(content[:1000]) + zlib.compress(content[1000:], 0)


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".deflate", in_two_streams)],
)
def test_packed_files_are_read_whole(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    rows = [{"id": n, "name": "x", "at": NOON} for n in range(5_000)]
    for make, write in FORMS:
        form = make()
        path = tmp_path / f"{form.title}{suffix}"
        path.write_bytes(pack(write(rows)))
        assert all_regions(path, form, [], COLUMNS) == rows


@pytest.mark.parametrize(
    ("content", "told"),
    [(zlib.compress(b"id\n1\n")[:-1], "cut short"), (b"id\n1\n", "it is no zlib stream")],
)
def test_a_deflated_file_that_is_damaged_is_refused(
    tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "a.csv.deflate").write_bytes(content)
    with pytest.raises(InputError, match=told):
        all_regions(tmp_path / "a.csv.deflate", Csv(CsvOptions()), [], parse_schema({"id": "int"}))


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_packed_file_may_be_longer_or_shorter_than_it_is_unpacked(
    tmp_path: Path, end: str
) -> None:
    one = parse_schema({"id": "int"})
    # A header that compresses to less than its own length, and a file that compresses to more.
    wide = tmp_path / "wide.csv.gz"
    wide.write_bytes(gzip.compress(f"id,{'x' * 5000}\n1,2{end}".encode()))
    short = tmp_path / "short.csv.gz"
    short.write_bytes(gzip.compress(f"id{end}".encode()))
    assert wide.stat().st_size < 5000
    assert all_regions(wide, Csv(CsvOptions()), [], one) == [{"id": 1}]
    assert all_regions(short, Csv(CsvOptions()), [], one) == []


@given(st.lists(st.sampled_from(["", " ", "\r", '{"id": 1}']), max_size=12), st.integers(0, 60))
@examples(60)
def test_blank_lines_are_no_rows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], edge: int
) -> None:
    path = tmp_path_factory.mktemp("blank") / "file"
    path.write_bytes("\n".join(lines).encode())
    found = all_regions(path, JsonLines(), [edge], parse_schema({"id": "int"}))
    assert len(found) == sum(1 for line in lines if "id" in line)


def test_going_back_in_a_packed_file_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"0123456789"))
    with open_decompressed(LocalStorage(), str(path)) as file:
        assert file.read(3) == b"012"
        file.seek(1)
        assert file.read(3) == b"123"
        assert file.get_stream(8, 2).read() == b"89"


def test_instants_of_csv_mean_utc_unless_they_say_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    times = ["2024-01-01T12:00:00Z", "2024-01-01 12:00:00", "2024-01-01T14:00:00+02:00", ""]
    path.write_text("\n".join(["at", *times]) + "\n")
    options = Csv(CsvOptions(null=[""]))
    found = all_regions(path, options, [], parse_schema({"at": "timestamp"}))
    assert [row["at"] for row in found][:3] == [NOON] * 3


def test_csv_without_a_header_has_the_columns_of_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1;a\n2;'b;c'\n")
    form = Csv(CsvOptions(header=False, delimiter=";", quote="'"))
    found = all_regions(path, form, [], parse_schema({"id": "int", "name": "string"}))
    assert found == [{"id": 1, "name": "a"}, {"id": 2, "name": "b;c"}]


def test_values_that_stand_for_null_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('id,name\nNA,NA\n2,"NA"\n')
    form = Csv(CsvOptions(null=["NA"]))
    found = all_regions(path, form, [], parse_schema({"id": "int", "name": "string"}))
    assert found == [{"id": None, "name": None}, {"id": 2, "name": "NA"}]
    path.write_text('id,name\n1,\n2,""\n')
    found = all_regions(path, form, [], parse_schema({"id": "int", "name": "string"}))
    assert found == [{"id": 1, "name": ""}, {"id": 2, "name": ""}]


@pytest.mark.parametrize("empty", ["", '""'])
def test_an_empty_number_is_null_only_if_the_empty_text_means_it(
    tmp_path: Path, empty: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"id,name\n{empty},a\n")
    columns = parse_schema({"id": "int", "name": "string"})
    assert all_regions(path, Csv(CsvOptions()), [], columns) == [{"id": None, "name": "a"}]
    with pytest.raises(InputError, match="invalid value ''"):
        all_regions(path, Csv(CsvOptions(null=["NA"])), [], columns)


def test_the_column_of_a_csv_value_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("name,price\na,1\nb,dear\n")
    columns = parse_schema({"price": "int"})
    with pytest.raises(InputError, match=r"`price`: .*int32: invalid value 'dear'"):
        all_regions(path, Csv(CsvOptions()), [], columns)


def test_a_column_that_csv_does_not_have_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="has no column id") as caught:
        all_regions(path, Csv(CsvOptions()), [], COLUMNS)
    assert "its first line names the columns a, b." in str(caught.value)
    assert caught.value.fields == {"file": str(path), "column": "id"}


@pytest.mark.parametrize("make", [*(make for make, _ in FORMS), Orc])
def test_a_damaged_file_is_named(tmp_path: Path, make: Callable[[], Format]) -> None:
    path = tmp_path / "bad"
    path.write_bytes(b'{"id": 1,\n"x\xff\xfe\n' * 5)
    with pytest.raises(
        InputError, match=r"bad(, byte 0: it is no|.*can't be read as|.*has no column)"
    ):
        all_regions(path, make(), [], COLUMNS)


def test_orc_tells_its_columns_and_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    rows = [{"id": n, "name": "x", "at": NOON} for n in range(10_000)]
    orc.write_table(pa.Table.from_pylist(rows, COLUMNS), path, stripe_size=1 << 16)
    with LocalStorage().open(str(path)) as file:
        assert (Orc().columns(file), Orc().rows(file)) == (COLUMNS, 10_000)
    assert all_regions(path, Orc(), [], COLUMNS) == rows


def test_orc_with_a_time_that_nanoseconds_can_t_hold_is_refused_and_read_without_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.orc"
    rows = [{"id": 1, "name": "a", "at": datetime(9999, 12, 31, tzinfo=UTC)}]
    orc.write_table(pa.Table.from_pylist(rows, COLUMNS), path)
    region = Region(str(path), 0, path.stat().st_size, path.stat().st_size)
    with pytest.raises(InputError, match=r"x\.orc: it has a time before 1677 or after") as told:
        list(read_region(Orc(), region, COLUMNS, STORES))
    assert "a `schema` without it" in told.value.hint
    without = pa.schema([COLUMNS.field("id"), COLUMNS.field("name")])
    (batch,) = read_region(Orc(), region, without, STORES)
    assert batch.to_pylist() == [{"id": 1, "name": "a"}]


def test_orc_with_a_date_of_the_julian_calendar_is_refused_and_read_without_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.orc"
    days = pa.array([{"d": [date(1582, 10, 15)]}, {"d": [date(1582, 10, 14)]}])
    orc.write_table(pa.table({"id": [1, 2], "days": days, "day": [date(1969, 1, 1)] * 2}), path)
    region = Region(str(path), 0, path.stat().st_size, path.stat().st_size)
    columns = parse_schema({"id": "bigint", "days": "struct<d:array<date>>", "day": "date"})
    with pytest.raises(InputError, match=r"x\.orc: it has a date before 1582-10-15"):
        list(read_region(Orc(), region, columns, STORES))
    (batch,) = read_region(Orc(), region, pa.schema([columns.field(0), columns.field(2)]), STORES)
    assert batch.to_pylist()[1] == {"id": 2, "day": date(1969, 1, 1)}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_zeros_of_orc_have_the_signs_that_the_file_has(tmp_path: Path, kind: pa.DataType) -> None:
    zeros = pa.array([-0.0, 0.0], kind)
    path = str(tmp_path / "x.orc")
    orc.write_table(pa.table({"v": zeros}), path, compression="uncompressed")
    # IEEE 754, one value after the other.
    assert zeros.buffers()[1].to_pybytes()[: kind.bit_width // 4] in Path(path).read_bytes()
    region = Region(path, 0, 1 << 62, 1 << 62)
    (batch,) = read_region(Orc(), region, pa.schema([("v", kind)]), STORES)
    assert list(map(repr, batch["v"].to_pylist())) == ["-0.0", "0.0"]
