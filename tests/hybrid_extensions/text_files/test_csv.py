"""CSV of other writers is read as it was meant, or refused with its file and row."""

from __future__ import annotations

import csv
import gzip
import io
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from hybrid_extensions.text_files.csv.reader import Csv
from sources.common.schema import parse_schema
from sources.errors import InputError
from sources.formats.csv_options import CsvOptions
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow
from sources.formats.open_file import read_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.properties import examples

STORES = Stores(S3Settings())
PAIR = parse_schema({"id": "bigint", "name": "string"})
Rows = list[dict[str, Any]]


def read(
    path: Path,
    options: CsvOptions,
    columns: pa.Schema = PAIR,
    edges: tuple[int, ...] = (),
) -> tuple[Rows, list[BadRow]]:
    """Good rows and bad ones of a file that is cut at some edges."""
    form, size = Csv(options), path.stat().st_size
    places = sorted({0, size, *(edge % (size + 1) for edge in edges if form.splits)})
    good: Rows = []
    bad: list[BadRow] = []
    for low, high in pairwise(places):
        region = Region(str(path), low, high - low, size)
        for batch in read_region(form, region, columns, STORES, bad.append):
            good += batch.to_pylist()
    return good, bad


def read_text(folder: Path, content: bytes, **options: Any) -> tuple[Rows, list[str]]:
    """Good rows of a file of this content, and why others are bad."""
    path = folder / "x.csv"
    path.write_bytes(content)
    good, bad = read(path, CsvOptions(**options))
    return good, [row.in_words.removeprefix(f"{path}, ") for row in bad]


@examples(100)
@given(
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=1, max_size=12),
    edges=st.tuples(st.integers(0, 500), st.integers(0, 500)),
    header=st.booleans(),
)
@example(ends=[b"\r"], edges=(0, 0), header=True)
@example(ends=[b"\r"] * 4, edges=(3, 9), header=True)
@example(ends=[b"\n", b"\r", b"\r\n"], edges=(7, 12), header=True)
def test_a_line_ends_with_a_line_feed_a_carriage_return_or_both(
    tmp_path_factory: pytest.TempPathFactory,
    ends: list[bytes],
    edges: tuple[int, int],
    *,
    header: bool,
) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    rows = [{"id": n, "name": f"n{n}"} for n in range(len(ends))]
    lines = [b"%d,n%d%s" % (n, n, end) for n, end in enumerate(ends)]
    path.write_bytes(b"".join([b"id,name" + ends[0] if header else b"", *lines]))
    good, bad = read(path, CsvOptions(header=header), edges=edges)
    assert (good, bad) == (rows, [])
    good, bad = read(path, CsvOptions(header=header, multiline=True))
    assert (good, bad) == (rows, [])


def test_of_lines_that_end_with_a_return_the_bad_one_is_told_alone(tmp_path: Path) -> None:
    good, bad = read_text(tmp_path, b'id,name\r1,a\rx,b\r3,"c"\r')
    assert [row["id"] for row in good] == [1, 3]
    assert [each.partition(":")[0] for each in bad] == ["byte 12"]


PLAIN: dict[str, Any] = {"quoting": csv.QUOTE_ALL, "encoding": "utf-8", "edges": (9, 0)}
texts = st.text(st.sampled_from([*'a",\\ ;\n', "é", "ß"]), max_size=8)


@examples(150)
@given(
    names=st.lists(texts, max_size=8),
    dialect=st.sampled_from([{}, {"escape": "\\"}, {"escape": '"'}, {"delimiter": ";"}]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-16-le", "cp1252"]),
    multiline=st.booleans(),
    edges=st.tuples(st.integers(0, 200), st.integers(0, 200)),
)
@example(names=['5"', "\\", 'a"b'], dialect={"escape": "\\"}, **PLAIN, multiline=False)
@example(names=['"\n"', "a\nb"], dialect={}, **PLAIN, multiline=True)
def test_every_text_comes_back_from_every_dialect(
    tmp_path_factory: pytest.TempPathFactory,
    names: list[str],
    dialect: dict[str, Any],
    quoting: Literal[0, 1],
    encoding: str,
    *,
    multiline: bool,
    edges: tuple[int, int],
) -> None:
    is_escaped = dialect.get("escape") == "\\"
    if is_escaped:
        quoting = csv.QUOTE_ALL  # Python escapes plain values, too; Spark does not.
    if not multiline:
        names = [name.replace("\n", "") for name in names]
    written = io.StringIO()
    writer = csv.writer(
        written,
        delimiter=dialect.get("delimiter", ","),
        quoting=quoting,
        doublequote=not is_escaped,
        escapechar="\\" if is_escaped else None,
        lineterminator="\n",
    )
    writer.writerow(["id", "name"])
    writer.writerows([[n, name] for n, name in enumerate(names)])
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(written.getvalue().encode(encoding))
    options = CsvOptions(**dialect, encoding=encoding, multiline=multiline, null=["none"])
    good, bad = read(path, options, edges=edges)
    assert bad == []
    assert good == [{"id": n, "name": name} for n, name in enumerate(names)]


MISPLACED = [
    *[b'1,"a"b', b'1,"a" ', b'1,"a', b'1,"a""', b'"1"2,a', b'1,"a\\"b"', b'1,""a"', b'1,"a"b"'],
    b'1,"\\"hi\\""',
]


@pytest.mark.parametrize("line", MISPLACED)
@pytest.mark.parametrize("header", [True, False])
def test_a_row_with_a_misplaced_quote_is_bad_and_told_what_to_declare(
    tmp_path: Path, line: bytes, *, header: bool
) -> None:
    before = b'7,"x ""y"""\n'
    content = [b"id,name\n" if header else b"", before, line, b"\n", b'8,"z"\n']
    good, bad = read_text(tmp_path, b"".join(content), header=header)
    assert good == [{"id": 7, "name": 'x "y"'}, {"id": 8, "name": "z"}]
    at = len(content[0]) + len(before)
    assert len(bad) == 1
    assert bad[0].startswith(f"byte {at}: its value ")
    assert "`csv.escape`" in bad[0]
    with pytest.raises(InputError, match=rf"x\.csv can't be read as CSV: byte {at}: its value \d"):
        read_text(tmp_path, b"".join(content), header=header, multiline=True)


def test_a_quote_within_a_plain_value_is_a_character(tmp_path: Path) -> None:
    for multiline in (False, True):
        good, bad = read_text(tmp_path, b'id,name\n1,5" x\n2,a""b\n3, "c"\n', multiline=multiline)
        assert [row["name"] for row in good] == ['5" x', 'a""b', ' "c"']
        assert bad == []


def test_a_quote_without_an_end_swallows_no_other_row(tmp_path: Path) -> None:
    rows = b"".join(b"%d,b\n" % n for n in range(3))
    with pytest.raises(InputError, match=r"byte 14: its value 2 has no closing quote"):
        read_text(tmp_path, b'id,name\n9,"a"\n1,"a\n' + rows, multiline=True)


def test_the_first_batch_of_a_small_file_tells_of_each_malformed_row(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b'id,name\n1,a\n2,"b\\"c"\n')
    region = Region(str(path), 0, path.stat().st_size, path.stat().st_size)
    rows = read_region(Csv(CsvOptions(multiline=True)), region, PAIR, STORES)
    with pytest.raises(InputError, match="byte 12: its value 2"):
        next(rows)


def test_of_several_lines_the_row_that_does_not_fit_is_named(tmp_path: Path) -> None:
    content = b'id,name\n1,"a\nb"\nx,"c\nd"\n'
    with pytest.raises(InputError, match=r"byte 16: .*The row is 'x,\"c\\nd\"'"):
        read_text(tmp_path, content, multiline=True)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("id,größe\n1,a\n".encode("latin-1"), "it is not UTF-8 text.*encoding: latin-1"),
        ("id,name\n1,a\n".encode("utf-16"), "is not UTF-8 text.*encoding: utf-16"),
        ("id,name\n1,a\n".encode("utf-16-le"), "is not UTF-8 text.*encoding: utf-16"),
        (gzip.compress(b"id,name\n1,a\n", mtime=0), r"compressed by gzip.*\.gz"),
        (b"id,name,name\n1,a,b\n", "has the column name 2 times"),
        (b"id,Name\n1,a\n", "has no column name: its first line names the columns id, Name"),
        (b"sep=,\r\nid,name\r\n1,a\r\n", "names the columns sep=.*Remove lines before the header"),
        (
            b'id,"name\n1,a\n',
            "that can be read: its value 2 has no closing quote.*one with line ends needs",
        ),
    ],
)
def test_a_file_that_is_something_else_is_refused_by_its_name(
    tmp_path: Path, content: bytes, told: str
) -> None:
    with pytest.raises(InputError, match=rf"/x\.csv .*{told}") as caught:
        read_text(tmp_path, content)
    assert caught.value.fields["file"] == str(tmp_path / "x.csv")


def test_a_column_that_is_not_read_may_be_there_twice(tmp_path: Path) -> None:
    good, _ = read_text(tmp_path, b"\nid,,name,\n1,x,a,y\n")
    assert good == [{"id": 1, "name": "a"}]


def test_a_declared_encoding_is_the_way_out_and_bytes_outside_of_it_are_refused(
    tmp_path: Path,
) -> None:
    content = "id,größe,name\n1,a,ö\n".encode("latin-1")
    good, _ = read_text(tmp_path, content, encoding="latin-1")
    assert good == [{"id": 1, "name": "ö"}]
    with pytest.raises(InputError, match=r"x\.csv can't be read as CSV: .*decode"):
        read_text(tmp_path, b"id,name\n1,\x81\n", encoding="cp1252")


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e39"])
def test_a_number_that_is_too_large_is_no_infinity(tmp_path: Path, text: str) -> None:
    kind = "float" if text == "1e39" else "double"
    path = tmp_path / "x.csv"
    path.write_text(f"v\ninf\n-Infinity\n1e30\n{text}\nNaN\n")
    good, bad = read(path, CsvOptions(), parse_schema({"v": kind}))
    assert [str(row["v"])[:3] for row in good] == [
        "inf",
        "-in",
        "1e+" if kind == "double" else "1.0",
        "nan",
    ]
    assert [row.content for row in bad] == [text.encode()]
    assert "is too large for" in bad[0].reason


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": "||"},
        {"delimiter": "§"},
        {"delimiter": ""},
        {"quote": "''"},
        {"escape": "\n"},
        {"delimiter": ",", "quote": ","},
        {"delimiter": "\\", "escape": "\\"},
        {"encoding": "utf-99"},
        {"encoding": "rot13"},
    ],
)
def test_a_dialect_that_can_t_be_read_is_refused_when_it_is_declared(
    options: dict[str, Any],
) -> None:
    with pytest.raises(ValidationError, match=r"again|different characters|Python knows"):
        CsvOptions(**options)


def test_a_null_in_quotes_is_a_value_of_a_text_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        'id,at,n,ok,name\n"1","2024-01-01T00:00:00Z","1.50","true",""\n"","","","",""\n'
    )
    columns = parse_schema(
        {"id": "int", "at": "timestamp", "n": "decimal(9,2)", "ok": "boolean", "name": "string"}
    )
    good, bad = read(path, CsvOptions(), columns)
    assert bad == []
    assert [row["name"] for row in good] == ["", ""]
    assert good[0]["id"] == 1
    assert {good[1][name] for name in columns.names[:-1]} == {None}


def test_a_time_may_be_a_day_or_have_nanoseconds_which_are_cut_off_as_by_spark(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.csv"
    texts = ["2024-01-01", "1969-12-31T23:59:59.9999999Z", "2024-01-01 12:00:00.123456789+02:00"]
    path.write_text("\n".join(["at", *texts, "2024-01-01Z"]))
    good, bad = read(path, CsvOptions(), parse_schema({"at": "timestamp"}))
    assert [row["at"] for row in good] == [
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2024, 1, 1, 10, 0, 0, 123_456, tzinfo=UTC),
    ]
    assert len(bad) == 1
