"""Bad rows of files are reported with their offsets, wherever they are, and all others are read."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hybrid_extensions.text_files.csv.reader import Csv
from hybrid_extensions.text_files.json.lines import JsonLines
from sources.common.schema import parse_schema
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.source_listing import list_splits
from sources.files.listing.split_table import FileListing
from sources.formats.base import Format
from sources.formats.csv_options import CsvOptions
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow
from sources.formats.open_file import read_region
from sources.planning.files.file_plan import plan_files
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.properties import examples

STORES = Stores(S3Settings())
KINDS = {"id": "bigint", "name": "string", "at": "timestamp", "day": "date"}
COLUMNS = parse_schema(KINDS)
NOON = "2024-01-01T12:00:00"
BAD_JSON = [
    *[b"null", b"[1]", b"7", b"x", b"{", b'{"id": 1', b', "name": "x"}', b'{"id": {', b"}}"],
    *[b'{"id": 1.5}', b'{"id": "7"}', b'{"name": [7]}', b'{"id": 1, "id": 2}', b'{"id": 1e3}'],
    *[b'{"id": 8} {"id": 9}', b'{"id": 8}null', b'{"name": "a\x00"}'],
    *[b'{"at": "24:00"}', b'{"at": 7}', b'{"day": "2024-02-30"}', b'{"day": 7}', b"\x00"],
    *[b'{"name": "\xff"}', b'{"other": "\xff"}', b'{"name": "\\ud800"}', b"\xff\xfe"],
    *[
        b'{"more": Inf}',
        b'{"more": [-Inf]}',
        b'{"more": -NaN, "name": "Infinity"}',
        b'{"more": INF}',
        b'{"id": 1,}',
        b'{"more": [1,]}',
    ],
    *[b'{"more": ' + b"[" * 100_000, b"[" * 100_000, b'{"a": ' * 100_000],
]
BAD_CSV = [
    *[b"x", b"1,n", b"1,n,,,", b"x,n,,", b"1.5,n,,", b"9223372036854775808,n,,"],
    *[b"1,n,24:00,", b"1,n,7,", b"1,n,,2024-02-30", b"1,\xff,,", b" ", b'1,"n,,', b'1,n"",,"'],
    *[b'1,"n', b'n",,', b'1,"a"b,c",,'],
]


def good_json(n: int) -> bytes:
    text = f'{{"id": {n}, "name": "n\u00e9", "at": "{NOON}", "day": "2024-01-01", "more": [{{}}]}}'
    return text.encode()


def good_csv(n: int) -> bytes:
    return f'{n},"n, ""{n}""",{NOON},2024-01-01'.encode()


# Format, function for good lines, bad lines, and lines that make no row.
JSON: tuple[Any, ...] = (JsonLines(), good_json, BAD_JSON, [b"", b" \t"])
CSV: tuple[Any, ...] = (Csv(CsvOptions(header=False)), good_csv, BAD_CSV, [b""])
# 0 stands for a good line, a positive number for a bad one, a negative one for a blank one.
contents = st.lists(st.one_of(st.just(0), st.just(0), st.integers(-30, 30)), max_size=40)


def is_taken_for_utf16(content: bytes) -> bool:
    """Whether a file begins as one in UTF-16 does: it is refused as a whole."""
    return b"\0" in content[:4] or content[:2] in (b"\xff\xfe", b"\xfe\xff")


def read(
    path: Path, form: Format, edges: list[int], columns: pa.Schema = COLUMNS
) -> tuple[list[dict[str, Any]], list[BadRow]]:
    """Return the good rows and the bad ones of all regions between some edges."""
    size = path.stat().st_size
    places = sorted({0, size, *(edge % (size + 1) for edge in edges)})
    good: list[dict[str, Any]] = []
    bad: list[BadRow] = []
    for low, high in pairwise(places):
        region = Region(str(path), low, high - low, size)
        for batch in read_region(form, region, columns, STORES, bad.append):
            assert batch.schema.equals(columns)
            good += batch.to_pylist()
    return good, bad


@pytest.mark.parametrize("case", [JSON, CSV], ids=["json", "csv"])
@examples(150)
@given(
    kinds=contents,
    edges=st.lists(st.integers(0, 5_000), max_size=6),
    block=st.integers(1, 600),
    end=st.sampled_from([b"\n", b"\r\n"]),
    is_ended=st.booleans(),
)
@example(kinds=[6, 7, 0], edges=[], block=600, end=b"\n", is_ended=True)
@example(kinds=[0] * 9 + [13, 0, 14, 15, 16], edges=[40], block=50, end=b"\n", is_ended=False)
def test_good_rows_and_bad_ones_are_met_once_wherever_they_are(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    case: tuple[Any, ...],
    kinds: list[int],
    edges: list[int],
    block: int,
    end: bytes,
    is_ended: bool,
) -> None:
    form, good_line, bad_lines, blank = case
    lines, expected, ids = [], [], []
    at = 0
    for n, kind in enumerate(kinds):
        line = good_line(n)
        if kind > 0:
            line = bad_lines[kind % len(bad_lines)]
            expected.append((at, line))
        elif kind < 0:
            line = blank[kind % len(blank)]
        else:
            ids.append(n)
        lines.append(line)
        at += len(line) + len(end)
    path = tmp_path_factory.mktemp("lines") / "file"
    content = end.join(lines) + (end if is_ended and lines else b"")
    assume(not is_taken_for_utf16(content))
    path.write_bytes(content)
    with patch("sources.formats.lines.BLOCK_BYTES", block):
        good, bad = read(path, form, edges)
    assert [row["id"] for row in good] == ids
    assert all(row["name"] for row in good)
    assert [(row.offset, row.content) for row in bad] == expected
    assert {row.path for row in bad} <= {str(path)}
    assert all(row.reason for row in bad)


@pytest.mark.parametrize("case", [JSON, CSV], ids=["json", "csv"])
def test_every_bad_line_is_bad_alone_and_the_first_one_is_told(
    tmp_path: Path, case: tuple[Any, ...]
) -> None:
    form, good_line, bad_lines, _ = case
    path = tmp_path / "file"
    for line in bad_lines:
        before = good_line(1) + b"\n"
        path.write_bytes(before + line + b"\n" + line)
        region = Region(str(path), 0, path.stat().st_size, path.stat().st_size)
        problem = rf"/file, byte {len(before)}: .+ Repair the file"
        with pytest.raises(InputError, match=problem) as caught:
            list(read_region(form, region, COLUMNS, STORES))
        assert caught.value.fields == {"file": str(path)}


@pytest.mark.parametrize("case", [JSON, CSV], ids=["json", "csv"])
def test_of_a_packed_file_the_place_is_that_in_its_content(
    tmp_path: Path, case: tuple[Any, ...]
) -> None:
    form, good_line, bad_lines, _ = case
    before = good_line(1) + b"\n"
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(before + bad_lines[0] + b"\n" + good_line(2)))
    good, bad = read(path, form, [])
    assert [row["id"] for row in good] == [1, 2]
    assert [(row.offset, row.content) for row in bad] == [(len(before), bad_lines[0])]
    assert bad[0].place == f"{path}, byte {len(before)} of the decompressed content"
    # Damage of the compressed file belongs to no row.
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"file\.gz can't be read as"):
        read(path, form, [])


def test_a_line_longer_than_a_block_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\n".join([good_json(1), b'{"id": 2, "name": "%b"}' % (b"x" * 999), b"x"]))
    with patch("sources.formats.lines.BLOCK_BYTES", 100):
        good, bad = read(path, JsonLines(), [])
    assert [row["id"] for row in good] == [1, 2]
    assert [row.content for row in bad] == [b"x"]


def test_words_for_numbers_are_those_of_spark_and_a_large_float_is_no_infinity(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    words = ["NaN", "Infinity", "-Infinity", "3e38", "1e39", "-1e400"]
    path.write_text("".join(f'{{"f": [{{"x": {word}}}], "text": "-Inf, Inf"}}\n' for word in words))
    good, bad = read(path, JsonLines(), [], parse_schema({"f": "array<struct<x:float>>"}))
    assert [str(row["f"][0]["x"])[:4] for row in good] == ["nan", "inf", "-inf", "3.00"]
    assert [row.content for row in bad] == path.read_bytes().splitlines()[4:]
    good, bad = read(path, JsonLines(), [], parse_schema({"f": "array<struct<x:double>>"}))
    assert [str(row["f"][0]["x"]) for row in good] == ["nan", "inf", "-inf", "3e+38", "1e+39"]


def test_a_byte_order_mark_belongs_to_no_row(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbf" + good_json(1) + b"\n" + good_json(2))
    assert [[row["id"] for row in rows] for rows in read(path, JsonLines(), [])[:1]] == [[1, 2]]


def test_bytes_that_are_no_text_are_bad_wherever_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"id,other\n1,a\n2,\xff\n3,\xc3\xa9\n")
    good, bad = read(path, Csv(CsvOptions()), [], parse_schema({"id": "bigint"}))
    assert [row["id"] for row in good] == [1, 3]
    assert [(row.offset, row.reason) for row in bad] == [(13, "it is not UTF-8 text")]


def test_quoted_line_ends_are_read_where_they_are_declared(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'1,"a\nb"\n2,c\n')
    two = parse_schema({"id": "bigint", "name": "string"})
    good, _ = read(path, Csv(CsvOptions(header=False, multiline=True)), [], two)
    assert good == [{"id": 1, "name": "a\nb"}, {"id": 2, "name": "c"}]
    path.write_bytes(b'1,"a\nb"\nx,c\n')
    with pytest.raises(InputError, match=r"/file can't be read as CSV: .*'x'"):
        read(path, Csv(CsvOptions(header=False, multiline=True)), [], two)


def source(**more: Any) -> FileSource:
    declared = {"type": "files", "name": "history", "path": "*.json", "format": "json"}
    return FileSource.model_validate({**declared, "schema": KINDS, **more})


@pytest.mark.parametrize("policy", ["drop", "quarantine"])
@pytest.mark.parametrize("kind", ["avro", "orc", "parquet", "delta"])
def test_files_that_carry_their_types_have_no_bad_rows(kind: str, policy: str) -> None:
    text = (
        rf"`on_bad_record: {policy}` works only with .*; here it is `format: {kind}`, where a file"
    )
    with pytest.raises(ValueError, match=text):
        source(format=kind, on_bad_record=policy)
    assert source(format=kind, on_bad_record="fail").on_bad_record == "fail"


def test_neither_text_nor_rows_of_several_lines_have_bad_rows() -> None:
    with pytest.raises(ValueError, match="every line is a valid row"):
        source(format="text", schema=None, on_bad_record="drop")
    with pytest.raises(ValueError, match=r"can't be combined with `csv.multiline`"):
        source(format="csv", csv={"multiline": True}, on_bad_record="drop")


def pipeline(only: FileSource) -> Pipeline:
    sink = {"path": "out", "mode": "append", "key": ["id"]}
    declared = {"name": "p", "event_time": "at", "transform": "t:t", "sink": sink, "state": "s"}
    return Pipeline.model_validate({**declared, "sources": [only]})


def listed(folder: Path, **more: Any) -> FileListing:
    declared = source(**more)
    files = find_files(declared.name, declared.patterns, folder, STORES)
    return list_splits(declared, "at", files, STORES)


def test_a_sample_with_bad_rows_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\n".join([good_json(1), b"null", good_json(2), b"x"]))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b"{\n" + good_json(3)))
    found = listed(tmp_path, path="*.json*", on_bad_record="drop")
    assert found.warnings == [
        "Source `history`: 3 of the sampled rows are bad. "
        f"{tmp_path}/a.json, byte {len(good_json(1)) + 1}: it is not a JSON object."
    ]
    assert found.splits["event_max_us"].null_count == 0
    with pytest.raises(InputError, match=r"json(\.gz)?, byte \d+.*: it is not a JSON object"):
        listed(tmp_path, path="*.json*")


@pytest.mark.parametrize("between", [b",\n", b","])
def test_an_array_of_objects_is_named_as_one(tmp_path: Path, between: bytes) -> None:
    (tmp_path / "a.json").write_bytes(b"[" + good_json(1) + between + good_json(2) + b"]")
    with pytest.raises(InputError, match="byte 0: it begins a JSON array; each object has to be"):
        listed(tmp_path, path="a.json")


def test_a_plan_of_bad_rows_only_is_refused_but_files_that_arrive_later_are_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.json").write_bytes(b"7\n8\n9")
    listing = listed(tmp_path, on_bad_record="quarantine")
    assert listing.splits["event_max_us"].to_pylist() == [None]
    loaded = LoadedPipeline(tmp_path / "p.yaml", pipeline(source(on_bad_record="quarantine")))
    text = r"with a time that counts\..* 3 of the sampled rows .*/a\.json, byte 0: it is not"
    with pytest.raises(InputError, match=text):
        plan_files(loaded, loaded.pipeline.file_source("history"), listing)


def test_a_region_with_bad_rows_at_its_ends_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\n".join([b"7"] * 99 + [good_json(1)] + [b"7"] * 99))
    (tmp_path / "b.json").write_bytes(good_json(2))
    with patch("sources.files.listing.sampler.SAMPLE_BYTES", 50):
        found = listed(tmp_path, on_bad_record="drop")
    assert found.splits["event_max_us"].null_count == 0
    assert "198 of the sampled rows are bad" in found.warnings[0]
