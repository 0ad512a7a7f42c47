"""Decimals that Arrow's readers can't hold: rows of files are bad, records of topics left to Spark.

Arrow ends the process at some of them, so they are read in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hybrid_extensions.text_files.csv.reader import Csv
from hybrid_extensions.text_files.json.lines import JsonLines
from sources.common.schema import parse_schema
from sources.decoding.json.batches import read_objects
from sources.formats.base import Format
from sources.formats.csv_options import CsvOptions
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow
from sources.formats.open_file import read_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

FINE = {"1.25": "1.25", "125e-2": "1.25", "1e3": "1000", "-0.5": "-0.5", "0.10e1": "1"}
TOO_LONG = [
    *["123e-10000000", "1e-77", "1e-1000", "1e-41", "-1E-77", "0.1e-60", "1.25e-99999999999999"],
    *[f"0.{'0' * 60}", f"0.{'0' * 60}1", f"-0.{'0' * 39}1"],
]
# Whole digits and the scale have more than 128 bits together.
WRAPPING = [
    ("decimal(38,18)", "400000000000000000000"),
    ("decimal(38,10)", "12713714019839939689741328795970264206"),
    ("decimal(38,10)", "3.4e39"),
    ("decimal(38,0)", "34" + "0" * 40),
    ("decimal(38,38)", "12.5"),
    ("decimal(38,18)", "400000000000e9"),
    ("decimal(38,38)", "-1.0"),
]
LARGEST = [
    ("decimal(38,18)", "99999999999999999999.999999999999999999"),
    ("decimal(38,0)", "9" * 38),
    ("decimal(38,38)", "0." + "9" * 38),
    ("decimal(38,10)", "0001e27"),
    ("decimal(38,38)", "0e9"),
]
LOSING = ["1.239", "1e-3", "1e20"]
KINDS = ["decimal(12,2)", "decimal(38,6)"]


Apart = Callable[[Callable[[], Any]], Any]


@pytest.fixture(scope="module")
def apart() -> Iterator[Apart]:
    """Do some work in another process; its death is an error, of the work after it, too."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield lambda work: pool.submit(work).result()


def rows_of(
    path: Path, form: Format, columns: pa.Schema
) -> tuple[list[dict[str, Any]], list[BadRow]]:
    bad: list[BadRow] = []
    size = path.stat().st_size
    region = Region(str(path), 0, size, size)
    batches = read_region(form, region, columns, Stores(S3Settings()), bad.append)
    return [row for batch in batches for row in batch.to_pylist()], bad


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_files_with_them_are_bad_and_no_others(
    tmp_path: Path, apart: Apart, kind: str
) -> None:
    columns = parse_schema({"m": kind})
    texts = [*FINE, *TOO_LONG]
    if kind == "decimal(12,2)":
        texts += LOSING
    csv_file, json_file, nested_file = (tmp_path / name for name in ("a.csv", "a.json", "b.json"))
    csv_file.write_text("".join(f"{text}\n" for text in texts))
    json_file.write_text("".join(f'{{"m": {text}}}\n{{"m": "{text}"}}\n' for text in texts))
    nested_file.write_text("".join(f'{{"s": {{"l": [{text}]}}, "x": 1e-300}}\n' for text in texts))
    right = [Decimal(text) for text in FINE.values()]
    good, bad = apart(partial(rows_of, csv_file, Csv(CsvOptions(header=False)), columns))
    assert [row["m"] for row in good] == right
    assert [row.content.decode() for row in bad] == texts[len(FINE) :]
    good, bad = apart(partial(rows_of, json_file, JsonLines(), columns))
    assert [row["m"] for row in good] == [each for each in right for _ in range(2)]
    assert len(bad) == 2 * (len(texts) - len(FINE))
    nested = parse_schema({"s": f"struct<l:array<{kind}>>", "x": "double"})
    good, bad = apart(partial(rows_of, nested_file, JsonLines(), nested))
    assert good == [{"s": {"l": [each]}, "x": 1e-300} for each in right]
    assert len(bad) == len(texts) - len(FINE)
    assert all(row.reason for row in bad)


@pytest.mark.parametrize("kind", KINDS)
def test_records_with_them_are_not_decided_here_and_others_are(apart: Apart, kind: str) -> None:
    texts = [*FINE, *TOO_LONG]
    values = [f'{{"m": {text}}}'.encode() for text in texts]
    values += [f'{{"m": "{text}"}}'.encode() for text in texts]
    values += [b'{"m": 1.5, "u": "1f3e-4a5e-77"}', b'{"m": 1.5, "x": 1e-300}']
    columns = parse_schema({"m": kind, "x": "double"})
    found = apart(partial(read_objects, pa.array(values, pa.binary()), columns)).to_pylist()
    undecided = [value for value, row in zip(values, found, strict=True) if row is None]
    assert {*values} - {*undecided} >= {values[0], values[2], values[-2]}
    assert all(any(text.encode() in value for value in undecided) for text in TOO_LONG)
    assert len(undecided) >= 2 * len(TOO_LONG)


@pytest.mark.parametrize(("kind", "text"), WRAPPING)
def test_a_number_that_is_too_large_becomes_no_other_one(
    tmp_path: Path, kind: str, text: str
) -> None:
    columns = parse_schema({"m": kind})
    (tmp_path / "x.csv").write_text(f"m\n{text}\n0\n")
    (tmp_path / "x.json").write_text(f'{{"m": {text}}}\n{{"m": "{text}"}}\n{{"m": 0}}\n')
    forms: list[tuple[str, Format, int]] = [("csv", Csv(CsvOptions()), 1), ("json", JsonLines(), 2)]
    for name, form, count in forms:
        rows, bad = rows_of(tmp_path / f"x.{name}", form, columns)
        assert [row["m"] for row in rows] == [0]
        assert len(bad) == count
    values = pa.array([f'{{"m": {text}}}'.encode(), f'{{"m": "{text}"}}'.encode()])
    assert read_objects(values, columns).null_count == 2


@pytest.mark.parametrize(("kind", "text"), LARGEST)
def test_the_largest_numbers_are_read(tmp_path: Path, kind: str, text: str) -> None:
    columns = parse_schema({"m": kind})
    (tmp_path / "x.csv").write_text(f"m\n{text}\n")
    (tmp_path / "x.json").write_text(f'{{"m": "{text}"}}\n')
    forms: list[tuple[str, Format]] = [("csv", Csv(CsvOptions())), ("json", JsonLines())]
    for name, form in forms:
        rows, bad = rows_of(tmp_path / f"x.{name}", form, columns)
        assert bad == []
        assert [row["m"] for row in rows] == [Decimal(text)]
