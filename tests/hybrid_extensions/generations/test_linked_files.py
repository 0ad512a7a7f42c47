"""What a file of one table is in the log of another: its partition, and statistics to trust."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.generations.files.linked_files import add_action

DAY = date(2024, 3, 1)
MOMENT = datetime(2024, 3, 1, 12, 0, 0, 5000, tzinfo=UTC)
COLUMNS: dict[str, list[Any]] = {
    "id": [3, 5],
    "price": [Decimal("1.25"), Decimal("2.50")],
    "score": [0.5, 1.5],
    "at": [MOMENT, MOMENT],
    "wall": [MOMENT.replace(tzinfo=None)] * 2,
    "on": [DAY, DAY],
    "missing": pa.nulls(2, pa.string()),
}


@pytest.mark.parametrize(
    ("given", "partition"), [({}, {}), ({"day": [DAY] * 2}, {"day": "2024-03-01"})]
)
def test_a_file_keeps_its_partition_and_the_statistics_that_all_readers_mean_alike(
    tmp_path: Path, given: dict[str, Any], partition: dict[str, str]
) -> None:
    folder = str(tmp_path / "table")
    write_deltalake(folder, pa.table({**COLUMNS, **given}), partition_by=list(given))
    [row] = pa.table(DeltaTable(folder).get_add_actions()).to_pylist()
    made = add_action(row, "elsewhere.parquet")
    assert (made.path, made.size) == ("elsewhere.parquet", row["size_bytes"])
    assert made.partition_values == partition
    # Decimals and floats have none: of those the two libraries write other ones.
    ends = {
        "id": 3,
        "at": "2024-03-01T12:00:00.005Z",
        "wall": "2024-03-01T12:00:00.005",
        "on": "2024-03-01",
    }
    stats = json.loads(made.stats)
    assert (stats["numRecords"], stats["minValues"]) == (2, ends)
    assert stats["maxValues"] == {**ends, "id": 5}
    assert stats["nullCount"]["missing"] == 2
