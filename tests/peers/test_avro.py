"""Files of apache/avro: the same rows in each codec, as the JSON beside them has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.avro.file_reader import Avro
from sources.errors import InputError
from sources.formats.file_regions import Region
from sources.formats.open_file import open_file, read_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

PROJECT = "avro"
STORES = Stores(S3Settings())


def read(path: Path) -> list[dict[str, Any]]:
    """The rows as a plan and the tasks that follow it read them."""
    with open_file(str(path), Avro(), STORES) as file:
        columns = Avro().columns(file)
    size = path.stat().st_size
    batches = read_region(Avro(), Region(str(path), 0, size, size), columns, STORES)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def data(peer: Callable[[str], Path]) -> Path:
    """The folder of Avro's test data."""
    return peer(PROJECT) / "share" / "test" / "data"


def test_the_weather_is_the_same_in_each_codec(
    data: Path, count: Callable[[str, str], None]
) -> None:
    lines = (data / "weather.json").read_text().splitlines()
    wanted = sorted((json.loads(line) for line in lines), key=str)
    files = sorted(data.glob("weather*.avro"))
    assert len(files) == 5
    for path in files:
        assert sorted(read(path), key=str) == wanted, path.name
        count(PROJECT, "right")


def test_a_marker_that_is_also_in_the_metadata_ends_no_header(
    data: Path, count: Callable[[str, str], None]
) -> None:
    assert len(read(data / "syncInMeta.avro")) == 6001
    count(PROJECT, "right")


def test_records_are_read_and_a_union_of_others_than_numbers_is_refused_by_name(
    data: Path, count: Callable[[str, str], None]
) -> None:
    assert read(data / "schemas" / "simple" / "data.avro")
    count(PROJECT, "right")
    problem = r"withUnion/data\.avro: Column `data1`: .* union of int, string"
    with pytest.raises(InputError, match=problem):
        read(data / "schemas" / "withUnion" / "data.avro")
    count(PROJECT, "refused as documented")
