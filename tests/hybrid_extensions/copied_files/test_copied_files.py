"""What a plan says of files that are copied into the table, and when it refuses to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from sources.common.schema import TIMESTAMP
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.source_listing import list_source
from sources.planning.files.copied_files import CopiedFiles, plan_copies
from tests.extensions import needs
from tests.minimal import minimal_model

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def write(path: Path, *minutes: int, kind: pa.DataType = TIMESTAMP) -> None:
    """A file with an event at each of these minutes after noon."""
    path.parent.mkdir(parents=True, exist_ok=True)
    at = pa.array([NOON + timedelta(minutes=each) for each in minutes], kind)
    pq.write_table(pa.table({"id": list(minutes), "at": at}), path)


def declared(folder: Path, sink: dict[str, Any], **changes: Any) -> LoadedPipeline:
    """A pipeline whose history has these fields."""
    names = ("event_time", "rules", "sample")
    fields = {name: changes.pop(name) for name in names if name in changes}
    source = {"type": "files", "name": "history", "path": "in", "format": "parquet", **changes}
    pipeline = minimal_model(
        source,
        sink={"path": "out", "mode": "append", "key": ["id"], "copy_files": True, **sink},
        **fields,
    )
    return LoadedPipeline(folder / "p.yaml", pipeline)


def copied(folder: Path, sink: dict[str, Any] | None = None, **changes: Any) -> CopiedFiles | None:
    """What the plan of a history with these fields says."""
    loaded = declared(folder, sink or {}, **changes)
    (source,) = loaded.pipeline.sources
    assert isinstance(source, FileSource)
    return plan_copies(loaded, source, list_source(loaded, source))


def test_files_that_need_a_change_are_named_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", 0, 1)
    write(tmp_path / "in" / "b.parquet", 2, 3, kind=pa.timestamp("ms", "UTC"))
    found = copied(tmp_path)
    assert found is not None
    assert (found.files, found.bytes) == (1, (tmp_path / "in" / "a.parquet").stat().st_size)
    (other,) = found.rewritten
    assert other.why == "column `at` is stored otherwise than Delta's timestamp"
    assert (other.files, other.such_as) == (1, f"{tmp_path}/in/b.parquet")
    assert copied(tmp_path, {"copy_files": False}) is None


@pytest.mark.parametrize("limit", ["since", "until"])
def test_a_file_that_a_time_range_cuts_is_written_again(tmp_path: Path, limit: str) -> None:
    write(tmp_path / "in" / "a.parquet", 0, 10)
    write(tmp_path / "in" / "b.parquet", 20, 30)
    write(tmp_path / "in" / "c.parquet", 40, 50)
    within = {limit: (NOON + timedelta(minutes=30)).isoformat()}
    found = copied(tmp_path, time_range=within)
    assert found is not None
    (cut,) = found.rewritten
    assert (found.files, cut.such_as) == (1, f"{tmp_path}/in/b.parquet")
    assert cut.why == "some of its rows are outside of `time_range`"


def test_a_file_with_times_out_of_bounds_is_written_again(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", 0, 10)
    write(tmp_path / "in" / "b.parquet", 20, 60 * 24 * 365 * 200)
    found = copied(tmp_path, event_time={"column": "at", "outside": "drop"})
    assert found is not None
    assert [each.why for each in found.rewritten] == [
        "event times of its rows are outside of the bounds"
    ]


def test_values_in_folder_names_are_kept_if_the_table_is_partitioned_alike(tmp_path: Path) -> None:
    write(tmp_path / "in" / "n=7" / "a.parquet", 0)
    write(tmp_path / "in" / "n=08" / "b.parquet", 1)
    partitions = {"partitions": {"n": "int"}}
    found = copied(tmp_path, {"partition_by": ["n"]}, **partitions)
    assert found is not None
    assert [each.why for each in found.rewritten] == [
        "the value of partition column `n` would be written otherwise"
    ]
    with pytest.raises(InputError, match=r"their partition columns \(n\) are not those of"):
        copied(tmp_path, **partitions)
    with pytest.raises(InputError, match=r"their partition columns \(none\) are not those of"):
        copied(tmp_path, {"partition_by": ["id"]})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"select": {"id": "id", "at": "at"}}, "`select` is declared"),
        ({"rules": {"low": "id < 10"}}, "need a look at each row"),
        ({"order": {"arrival": "at", "every": "1 min"}}, "that are read by event time"),
    ],
)
def test_a_declaration_that_copies_nothing_is_refused(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    write(tmp_path / "in" / "a.parquet", 0)
    with pytest.raises(InputError, match=told):
        copied(tmp_path, **changes)


@needs("s3")
def test_a_target_elsewhere_and_files_of_which_none_can_be_copied_are_refused(
    tmp_path: Path,
) -> None:
    write(tmp_path / "in" / "a.parquet", 0, kind=pa.timestamp("ms", "UTC"))
    with pytest.raises(InputError, match=r"neither both in S3 nor both on this machine"):
        copied(tmp_path, {"path": "s3://lake/out"})
    with pytest.raises(InputError, match=rf"no file .* {tmp_path}/in/a.parquet: column `at` is"):
        copied(tmp_path)


def test_a_range_of_the_table_and_a_sample_of_its_rows_can_be_computed_all_the_same(
    tmp_path: Path,
) -> None:
    write(tmp_path / "in" / "a.parquet", 0, 10)
    within = {"since": (NOON + timedelta(minutes=5)).isoformat()}
    found = copied(tmp_path, time_range=within)
    assert found is not None
    assert (found.files, len(found.rewritten)) == (0, 1)
    assert copied(tmp_path, sample={"share": 0.5, "by": ["id"]}) is None


def test_copying_can_be_declared_and_removed_while_a_generation_is_in_use(tmp_path: Path) -> None:
    without = declared(tmp_path, {"copy_files": False})
    assert declared(tmp_path, {}).contract() == without.contract()


def test_only_rows_that_are_added_can_be_copied(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="`copy_files` has a meaning with `mode: append`"):
        copied(tmp_path, {"mode": "merge"})
