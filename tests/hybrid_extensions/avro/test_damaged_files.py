"""Files that are cut off, or hold no records, are named."""

from __future__ import annotations

import io
from pathlib import Path

import fastavro
import pytest

from hybrid_extensions.avro.file_reader import Avro
from sources.errors import InputError
from sources.formats.open_file import open_file
from tests.sources.formats.test_formats import COLUMNS, NOON, STORES, all_regions, as_avro


def test_an_avro_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.avro"
    whole = as_avro([{"id": n, "name": "x", "at": NOON} for n in range(1000)])
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut\.avro can't be read as Avro"):
        all_regions(path, Avro(), [], COLUMNS)


@pytest.mark.parametrize("schema", ["long", {"type": "array", "items": "long"}])
def test_an_avro_file_of_values_that_are_no_records_is_refused(
    tmp_path: Path, schema: object
) -> None:
    path = tmp_path / "longs.avro"
    out = io.BytesIO()
    fastavro.writer(out, schema, [1, 2] if schema == "long" else [[1], [2]])
    path.write_bytes(out.getvalue())
    problem = r"longs\.avro can't be read as Avro: its schema is of type .*, not of type record"
    with pytest.raises(InputError, match=problem) as caught:
        all_regions(path, Avro(), [], COLUMNS)
    assert caught.value.fields == {"file": str(path)}
    with pytest.raises(InputError, match=problem), open_file(str(path), Avro(), STORES) as file:
        Avro().columns(file)
