"""JSONTestSuite (https://github.com/nst/JSONTestSuite): JSON is read, and what is not is bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.text_files.json.lines import JsonLines
from sources.common.schema import parse_schema
from sources.decoding.json.batches import read_objects
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow
from sources.formats.open_file import read_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.e2e.records.json_records import read_records

COLUMNS = {"number": "int"}
NUMBERS = {f"n_number_{name}.json" for name in ("NaN", "infinity", "minus_infinity")}
"""Words for numbers, which are not JSON, but read by Spark and here."""
QUOTES = {f"n_{name}_single_quote.json" for name in ("object", "string")}
"""Texts in single quotes, which Spark's ``from_json`` reads, so in records."""
BEHIND = {
    *(f"n_object_trailing_comment{name}.json" for name in ("", "_open", "_slash_open")),
    "n_object_trailing_comment_slash_open_incomplete.json",
    "n_object_with_trailing_garbage.json",
    "n_structure_object_followed_by_closing_object.json",
    "n_structure_object_with_trailing_garbage.json",
    "n_structure_trailing_#.json",
}
"""Objects with text behind them, which Spark's ``from_json`` leaves out, so in records."""


def documents(folder: Path) -> list[tuple[str, bytes]]:
    """Each document as a member of an object, and by itself if it begins as one, with its name."""
    found = []
    for path in sorted((folder / "test_parsing").iterdir()):
        content = path.read_bytes()
        found.append((path.name, b'{"number": 7, "more": %b}' % content))
        if content.lstrip().startswith(b"{"):
            found.append((path.name, content))
    return found


def rows_of(path: Path) -> tuple[int, int]:
    """Numbers of the good rows and of the bad ones of a file."""
    bad: list[BadRow] = []
    size = path.stat().st_size
    region = Region(str(path), 0, size, size)
    columns = parse_schema(COLUMNS)
    batches = [*read_region(JsonLines(), region, columns, Stores(S3Settings()), bad.append)]
    return sum(map(len, batches)), len(bad)


def read_lines(values: Sequence[bytes], folder: Path) -> list[tuple[int, int]]:
    """Read each value as a line between two good ones."""
    found = []
    for at, value in enumerate(values):
        path = folder / f"{at}.json"
        path.write_bytes(b'{"number": 1}\n' + value + b'\n{"number": 2}\n')
        found.append(rows_of(path))
    return found


def expected(name: str, beyond: set[str]) -> bool | None:
    """Whether a document is to be read; None if either is right."""
    if name.startswith("i_"):
        return None
    return name.startswith("y_") or name in beyond


def test_as_lines_of_files(
    peer: Callable[[str], Path], count: Callable[[str, str], None], tmp_path: Path
) -> None:
    cases = [
        (name, value)
        for name, value in documents(peer("JSONTestSuite"))
        # A document of several lines is not a line.
        if not name.startswith("y_") or len(value.strip().splitlines()) == 1
    ]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = pool.submit(partial(read_lines, [value for _, value in cases], tmp_path)).result()
    wrong = []
    for (name, value), (good, bad) in zip(cases, found, strict=True):
        is_read = (good, bad) == (3, 0)
        count("JSONTestSuite", f"{'rows' if is_read else 'bad rows'} of files")
        right = expected(name, NUMBERS)
        # The parts of a line that was divided are bad, or none.
        if (right is not None and is_read != right) or (not is_read and good > 3):
            wrong.append((name, value, good, bad))
    assert wrong == []


@pytest.mark.spark
def test_as_records_of_a_topic(
    peer: Callable[[str], Path],
    count: Callable[[str, str], None],
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    cases = documents(peer("JSONTestSuite"))
    good = read_records(spark, tmp_path, [value for _, value in cases], COLUMNS)
    wrong = []
    for at, (name, value) in enumerate(cases):
        count("JSONTestSuite", "good records" if at in good else "bad records")
        right = expected(name, {*NUMBERS, *QUOTES, *BEHIND})
        is_member = value.startswith(b'{"number": 7')
        if name in BEHIND and is_member:
            # Within another object the text is behind nothing, unless a bracket closes that one.
            right = name == "n_structure_object_followed_by_closing_object.json"
        if (right is not None and (at in good) != right) or (
            at in good and is_member and good[at] != {"number": 7}
        ):
            wrong.append((name, value, good.get(at)))
    assert wrong == []


def test_of_what_is_not_json_nothing_is_decided_without_spark(peer: Callable[[str], Path]) -> None:
    values = [value for name, value in documents(peer("JSONTestSuite")) if name.startswith("n_")]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        work = partial(read_objects, pa.array(values, pa.binary()), parse_schema(COLUMNS))
        assert pool.submit(work).result().null_count == len(values)
