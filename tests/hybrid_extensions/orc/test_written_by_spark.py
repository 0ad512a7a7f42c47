"""ORC files as Spark writes them: times in its own zone, and times without a zone.

Those in ``recorded`` are one row that Spark 4.2 wrote, whose own time zone was the one in the name:
``SELECT timestamp'2024-07-01 12:00:00 UTC' at, 1L id, timestamp_ntz'2024-07-01 12:00:00' n,
array(timestamp'2024-01-01 12:00:00 UTC') l``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from hybrid_extensions.orc.reader import Orc
from hybrid_extensions.orc.writer_zone import writer_zone
from sources.common.schema import names_and_types, parse_schema
from sources.errors import InputError
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

RECORDED = Path(__file__).parent / "recorded"
KINDS = {"at": "timestamp", "id": "bigint", "n": "timestamp", "l": "array<timestamp>"}
NOON = datetime(2024, 7, 1, 12, tzinfo=UTC)


def rows(name: str, *columns: str) -> list[dict[str, Any]]:
    path = str(RECORDED / name)
    wanted = parse_schema({each: KINDS[each] for each in columns})
    batches = read_region(Orc(), Region(path, 0, 1, 1), wanted, Stores(S3Settings()))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("column", ["at", "l"])
def test_times_of_another_zone_are_refused_not_read_hours_off(column: str) -> None:
    wanted = rf"los_angeles\.orc: Column `{column}` has times that .* zone America/Los_Angeles"
    with pytest.raises(InputError, match=wanted):
        rows("los_angeles.orc", "id", column)
    assert rows("los_angeles.orc", "id", "n") == [{"id": 1, "n": NOON}]


def test_times_of_utc_and_times_without_a_zone_are_read() -> None:
    with (RECORDED / "utc.orc").open("rb") as file:
        assert names_and_types(Orc().columns(file)) == KINDS
    expected = {"at": NOON, "id": 1, "n": NOON, "l": [NOON.replace(month=1)]}
    assert rows("utc.orc", *KINDS) == [expected]


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "zstd", "lz4"])
@pytest.mark.parametrize("number", [0, 1, 300_000])
def test_the_zone_is_found_in_each_codec_but_lz4(tmp_path: Path, codec: str, number: int) -> None:
    path = str(tmp_path / "x.orc")
    orc.write_table(pa.table({"n": pa.array(range(number), pa.int64())}), path, compression=codec)
    with pa.OSFile(path) as file:
        zone = writer_zone(file, orc.ORCFile(path))
    assert zone == (None if codec == "lz4" or not number else "GMT")
