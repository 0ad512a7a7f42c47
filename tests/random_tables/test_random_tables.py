"""Random tables of every tool: planned and read they equal Spark's reader, or are refused."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.footers import needs_parsing
from spark_jobs.inside.errors.error_reports import report_of
from tests.random_tables.both_readers import (
    CORRUPT,
    Rows,
    Written,
    by_chain,
    by_product,
    by_spark,
    pipeline,
)
from tests.random_tables.columns import draw_columns, draw_rows
from tests.random_tables.dialects import Dialect, dialects

pytestmark = pytest.mark.spark

FILES = int(os.environ.get("RANDOM_FILES", "20"))
"""Files of a source, each a random table of its own."""
TABLES = int(os.environ.get("RANDOM_TABLES", "200"))
APART = 100
"""Between the keys of two files."""
SEED = int(os.environ.get("RANDOM_SEED", "0"))
_TOLD = 2_000


def draw_files(
    folder: Path, dialect: Dialect, random: Random
) -> tuple[dict[str, Any], list[Written]]:
    columns = draw_columns(random, dialect.kinds, dialect.names)
    (folder / "in").mkdir(parents=True)
    files = []
    for at in range(FILES):
        writer = random.choice(sorted(dialect.writers))
        rows = draw_rows(random, columns, at * APART, random.choice([1, 2, 5, 20]))
        path = folder / "in" / f"{at:02d}{dialect.suffix}"
        dialect.writers[writer](rows, path, random)
        files.append(Written(path, writer, rows))
    return columns, files


def expected_of(
    spark: SparkSession, dialect: Dialect, columns: dict[str, Any], files: list[Written]
) -> Rows:
    """Rows by Spark's reader; those of files that it can't read as they were given."""
    found: Rows = {}
    for writer in sorted({file.writer for file in files}):
        own = [file for file in files if file.writer == writer]
        for file in [file for file in own if is_beyond_spark(file)]:
            found |= file.given()
            own.remove(file)
        read = by_spark(spark, dialect, columns, own) if own else {}
        for file in own if read is None else []:
            read = {
                **(read or {}),
                **(by_spark(spark, dialect, columns, [file]) or file.given()),
            }
        found |= read or {}
    return found


def is_beyond_spark(file: Written) -> bool:
    """Whether a file has types that Spark's reader of Parquet is known not to take."""
    if file.path.suffix != ".parquet":
        return False
    return any(map(needs_parsing, parquet_file(file.path).schema_arrow.types))


def is_lossy(file: Written, row: dict[str, Any]) -> bool:
    """Whether JSON of pandas has numbers of a row with other digits, which make a bad row.

    It writes decimals inside of values as doubles, and the largest double as one that is too large;
    docs/values.md says that Spark rounds the ones and makes infinities of the others.
    """
    has_decimal = any("decimal" in str(kind) for kind in file.rows.schema.types)
    return file.writer == "pandas" and (has_decimal or "inf" in str(row))


def unequal(row: dict[str, Any], expected: dict[str, Any], form: str) -> dict[str, Any]:
    """Columns that differ, with both values, but for what docs/values.md lists.

    That is: CSV of other tools has words for numbers that are not finite, which make a bad row in
    Spark; and a quoted text without characters, which is null there. Of ORC, Spark's reader mixes
    up the signs of zeros.
    """
    if form == ".orc":
        row, expected = ({n: _unsigned(each) for n, each in of.items()} for of in (row, expected))
    words = {"inf", "-inf", "NaN"} if expected.get(CORRUPT) is not None else set()
    words |= {""} if CORRUPT in expected else set()
    pairs = {name: (value, expected[name]) for name, value in row.items()}
    return {
        name: pair
        for name, pair in pairs.items()
        if pair[0] != pair[1] and not (pair[1] is None and repr(pair[0]).strip("'") in words)
    }


def _unsigned(value: Any) -> Any:
    """A value of :func:`comparable` with zeros of no sign."""
    if isinstance(value, dict):
        return {name: _unsigned(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_unsigned(each) for each in value]
    return "0.0" if value == "-0.0" else value


def differences(found: Rows, expected: Rows, files: list[Written]) -> list[str]:
    """What is not as expected: a value, or a row that is missing without being a bad one."""
    told = [f"row {key} is nowhere" for key in found if key not in expected]
    for at, file in enumerate(files):
        keys = [key for key in expected if key // APART == at]
        lost = [expected[key] for key in keys if key not in found]
        lost = [row for row in lost if row.get(CORRUPT) is None and not is_lossy(file, row)]
        if lost:
            told.append(f"{len(lost)} of {len(keys)} rows of {file.writer} are not read: {lost[0]}")
        form = file.path.suffix
        unlike = [unequal(found[key], expected[key], form) for key in keys if key in found]
        if unlike := [each for each in unlike if each]:
            told.append(
                f"{len(unlike)} of {len(keys)} rows of {file.writer} (here, Spark): {unlike[0]}"
            )
    return told


FORMS = ["parquet", "orc", "avro", "csv", "json"]


class Search:
    """Random sources of one format, and what became of their files.

    Args:
        spark: The session.
        folder: Folder in which they are written.
        form: The format.
    """

    def __init__(self, spark: SparkSession, folder: Path, form: str) -> None:
        self._spark = spark
        self._folder = folder
        self._dialects = [each for each in dialects(spark) if each.format == form]
        self._outcomes: Counter[str] = Counter()
        self._wrong: list[str] = []

    def run(self, files: int, read: Callable[[LoadedPipeline], tuple[Rows, list[str]]]) -> None:
        """Read random sources with so many files together.

        Args:
            files: Number of files.
            read: Reads a source; returns its rows, and what else is wrong.
        """
        for at in range(-(-files // FILES)):
            dialect = self._dialects[at % len(self._dialects)]
            name = f"{dialect.name}-{SEED}-{at}"
            columns, written = draw_files(self._folder / name, dialect, Random(name))
            loaded = pipeline(self._folder / name, dialect, columns)
            wrong: list[str] = []
            try:
                found, wrong = read(loaded)
            except HybridError as error:
                outcome, wrong = "refused", [f"refused: {error}"]
            except Exception as error:
                told = f"crashed: {type(error).__name__}: {report_of(error)}"
                outcome, wrong = "crashed", [told[:_TOLD]]
            else:
                expected = expected_of(self._spark, dialect, columns, written)
                wrong = [*wrong, *differences(found, expected, written)]
                outcome = "different" if wrong else "equal"
            self._outcomes.update(f"{outcome}: {file.writer}" for file in written)
            self._wrong += [f"{name} {each}" for each in wrong]

    def refuse_placeholders(self) -> None:
        """Fail with all that was found; its counts are printed, and RANDOM_LOG gets the rest.

        Raises:
            AssertionError: Something is different, crashed or was refused.
        """
        print(dict(self._outcomes))  # noqa: T201 - counts are what this is run for
        if log := os.environ.get("RANDOM_LOG"):
            with Path(log).open("a") as file:
                file.writelines(f"{each}\n" for each in self._wrong)
        assert self._wrong == []


@pytest.mark.parametrize("form", FORMS)
def test_each_is_equal_to_sparks_reader(
    tmp_path: Path, hybrid_spark: SparkSession, form: str
) -> None:
    search = Search(hybrid_spark, tmp_path, form)
    search.run(TABLES // len(FORMS), lambda loaded: (by_product(hybrid_spark, loaded), []))
    search.refuse_placeholders()


@pytest.mark.e2e
@pytest.mark.parametrize("form", FORMS)
def test_through_the_whole_chain_the_audit_says_so_too(
    tmp_path: Path, hybrid_spark: SparkSession, form: str
) -> None:
    def read(loaded: LoadedPipeline) -> tuple[Rows, list[str]]:
        found, report = by_chain(hybrid_spark, loaded)
        # Of ORC the audit proves nothing, and compares all the same.
        is_right = report.ok or (form == "orc" and report.outcome == "unknown")
        return found, [] if is_right else [f"audit: {report.examples} {report.unchecked}"]

    search = Search(hybrid_spark, tmp_path, form)
    search.run(TABLES // len(FORMS) // 20, read)
    search.refuse_placeholders()
