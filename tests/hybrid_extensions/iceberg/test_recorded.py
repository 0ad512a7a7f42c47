"""Tables that Spark wrote with Iceberg: a plan knows their rows and times, or refuses by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.source_listing import list_source
from sources.files.listing.split_table import FileListing
from tests.hybrid_extensions.iceberg.recorded.place import Recorded, recorded, unpack
from tests.minimal import minimal_model

RECORDED = recorded()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EVERY_TIME = {
    "column": "at",
    "not_before": "0001-01-01T00:00:00Z",
    "not_after": "9999-12-31T23:59:59.999999Z",
    "outside": "keep",
}
IS_VARIANT = "column `v` has the Iceberg type variant"
REFUSED = {"v2/uuid": "column `u` has the Iceberg type uuid", "v3/variant": IS_VARIANT}
"""Tables that are refused as they are in the end."""
BEFORE = {
    "renamed_and_wider": "it has `j` under an older name, and Spark would mistake its type",
    "added_files": "it has no field ids, only the table has names for them",
    "orc": "is of format orc",
    "/avro": "is of format avro",
    "v1/without_a_list": "names its manifests one by one",
    "deletes_by_values": "it has equality deletes",
    "deletes_in_avro": "are of format avro",
    "v3/defaults": "column `n` has an initial default, which the file does not contain",
}
"""Tables that are refused before their last step, which is what the message says to do."""


def listed(folder: Path, table: str, **changes: Any) -> FileListing:
    source = {"type": "files", "name": "history", "format": "iceberg", **changes}
    path = str(unpack(folder, table))
    pipeline = minimal_model(
        {**source, "path": path},
        event_time=EVERY_TIME,
        sink={"path": "out", "mode": "append", "key": ["k"]},
    )
    (declared,) = pipeline.sources
    assert isinstance(declared, FileSource)
    return list_source(LoadedPipeline(folder / "p.yaml", pipeline), declared)


def micros_of(found: Recorded) -> list[int]:
    """Event times of a table, in microseconds."""
    texts = [row["at"] for row in found.rows if row["at"] is not None]
    times = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts]
    return [(time - EPOCH) // timedelta(microseconds=1) for time in times]


@pytest.mark.parametrize("table", [name for name in RECORDED if name not in REFUSED])
def test_a_plan_knows_the_rows_and_the_first_and_the_last_time(tmp_path: Path, table: str) -> None:
    found, splits = RECORDED[table], listed(tmp_path, table).splits
    micros = micros_of(found)
    assert sum(splits["rows"].to_pylist()) == len(found.rows)
    ends = pc.min(splits["event_min_us"]).as_py(), pc.max(splits["event_max_us"]).as_py()
    assert ends == (min(micros, default=None), max(micros, default=None))
    assert sum(splits["nulls"].to_pylist()) == len(found.rows) - len(micros)


@pytest.mark.parametrize("table", REFUSED)
def test_a_table_that_spark_can_not_read_so_is_refused_by_name(tmp_path: Path, table: str) -> None:
    with pytest.raises(InputError, match=REFUSED[table]):
        listed(tmp_path, table)


@pytest.mark.parametrize(
    ("table", "told"),
    [(name, told) for end, told in BEFORE.items() for name in RECORDED if name.endswith(end)],
)
def test_what_is_refused_is_read_once_the_table_was_rewritten_as_the_message_says(
    tmp_path: Path, table: str, told: str
) -> None:
    # Its last snapshot is the one after that.
    before = RECORDED[table].snapshots[-2]
    with pytest.raises(InputError, match=told) as error:
        listed(tmp_path, table, version=before)
    assert "rewrite_" in error.value.hint
