"""An Iceberg snapshot as history: its metadata tells the plan, as footers would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.types import UUIDType

from sources.common.schema import names_and_types
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.source_listing import list_source
from sources.files.listing.split_table import FileListing
from tests.hybrid_extensions.iceberg.tables import catalog, delete_rows
from tests.minimal import minimal_model
from tests.properties import examples

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000


def rows(micros: list[int | None], at: str = "at") -> pa.Table:
    times = [None if us is None else BEGIN + timedelta(microseconds=us) for us in micros]
    return pa.table(
        {
            "id": pa.array(range(len(micros)), pa.int64()),
            at: pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def made(folder: Path, *parts: pa.Table, **properties: str) -> Table:
    table = catalog(folder).create_table(
        "shop.events", parts[0].schema, properties={"format-version": "2", **properties}
    )
    for part in parts:
        table.append(part)
    return table


def source(**changes: Any) -> FileSource:
    return FileSource.model_validate(
        {"type": "files", "name": "history", "format": "iceberg", **changes}
    )


def listed(folder: Path, table: Table | Path, **changes: Any) -> FileListing:
    path = table.metadata_location if isinstance(table, Table) else str(table)
    pipeline = minimal_model(
        source(path=path.removeprefix("file://"), **changes).model_dump(
            exclude_unset=True, by_alias=True
        )
    )
    (declared,) = pipeline.sources
    assert isinstance(declared, FileSource)
    return list_source(LoadedPipeline(folder / "p.yaml", pipeline), declared)


def refusal(what: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        what()
    return str(caught.value)


@examples(20)
@given(
    parts=st.lists(
        st.lists(st.one_of(st.none(), st.integers(-(10**12), 10**12)), min_size=1, max_size=5),
        min_size=1,
        max_size=3,
    ),
    bounds=st.booleans(),
    data=st.data(),
)
def test_a_snapshot_tells_what_its_rows_would(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[int | None]],
    bounds: bool,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("table")
    # Without bounds in the manifests, footers are asked.
    mode = {} if bounds else {"write.metadata.metrics.default": "none"}
    table = made(folder, *map(rows, parts), **mode)
    files = [task.file.file_path for task in table.scan().plan_files()]
    counts = [task.file.record_count for task in table.scan().plan_files()]
    gone = {
        file: data.draw(st.sets(st.integers(0, count - 1)))
        for file, count in zip(files, counts, strict=True)
    }
    if any(gone.values()):
        table = delete_rows(table, {file: sorted(at) for file, at in gone.items() if at})
    # PyIceberg's own reader says which rows are left.
    left = table.scan().to_arrow()["at"].cast(pa.int64()).to_pylist()
    assert len(left) == sum(counts) - sum(map(len, gone.values()))
    found = listed(folder, table).splits.to_pylist()
    assert sum(split["rows"] for split in found) == len(left)
    assert sum(split["nulls"] for split in found) == left.count(None)
    known = [us for us in left if us is not None]
    lows = [split["event_min_us"] for split in found if split["event_min_us"] is not None]
    highs = [split["event_max_us"] for split in found if split["event_max_us"] is not None]
    assert min(lows, default=None) == min(known, default=None)
    assert max(highs, default=None) == max(known, default=None)


def test_a_snapshot_is_what_it_was(tmp_path: Path) -> None:
    table = made(tmp_path, rows([1, 2]))
    before = table.current_snapshot()
    assert before is not None
    table.append(rows([3]))
    assert sum(listed(tmp_path, table).splits["rows"].to_pylist()) == 3
    older = listed(tmp_path, table, version=before.snapshot_id)
    assert sum(older.splits["rows"].to_pylist()) == 2
    told = refusal(lambda: listed(tmp_path, table, version=17))
    assert "has no snapshot 17" in told
    current = table.current_snapshot()
    assert current is not None
    assert f"Remove `version` to read the current snapshot, {current.snapshot_id}; or" in told
    assert f"The newest of 2: {current.snapshot_id} (2" in told
    assert f", {before.snapshot_id} (2" in told


def test_a_column_that_was_renamed_is_found_in_older_files(tmp_path: Path) -> None:
    # Without bounds, so that files are opened.
    table = made(tmp_path, rows([1, 2], "was"), **{"write.metadata.metrics.default": "none"})
    with table.update_schema() as change:
        change.rename_column("was", "at")
    table.append(rows([3, 4]))
    found = listed(tmp_path, table)
    assert names_and_types(found.read) == {"id": "bigint", "at": "timestamp"}
    assert found.splits["event_max_us"].to_pylist() == [BEGIN_US + 2, BEGIN_US + 4]


LOOK_UP = """
import sys
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from hybrid_extensions.iceberg.table import metadata_file_of
source = {"type": "files", "name": "history", "format": "iceberg", "table": sys.argv[1]}
try:
    print(metadata_file_of(FileSource.model_validate(source)))
except InputError as error:
    print(error.message)
"""


def looked_up(folder: Path, table: str) -> str:
    """What is found by a name, in a process of its own: PyIceberg reads the environment once."""
    found = {"TYPE": "sql", "URI": f"sqlite:///{folder}/catalog.db"}
    environment = {f"PYICEBERG_CATALOG__PROD__{name}": value for name, value in found.items()}
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP, table],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_table_is_found_by_its_folder_and_by_its_name(tmp_path: Path) -> None:
    table = made(tmp_path, rows([1, 2]))
    metadata = Path(table.metadata_location.removeprefix("file://"))
    (metadata.parent / "version-hint.text").write_text(metadata.name)
    assert len(listed(tmp_path, metadata.parents[1]).splits) == 1
    assert looked_up(tmp_path, "prod.shop.events") == table.metadata_location
    told = looked_up(tmp_path, "prod.shop.orders")
    assert "table `shop.orders` can't be looked up in the Iceberg catalog `prod`" in told


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda table: delete_rows(
                table,
                {next(iter(table.scan().plan_files())).file.file_path: [0]},
                DataFileContent.EQUALITY_DELETES,
            ),
            "it has equality deletes",
        ),
        (
            lambda table: table.update_schema().add_column("key", UUIDType()).commit(),
            "column `key` has the Iceberg type uuid",
        ),
    ],
)
def test_what_can_not_be_read_is_refused_by_name(
    tmp_path: Path, make: Callable[[Table], object], told: str
) -> None:
    table = made(tmp_path, rows([1, 2]))
    make(table)
    assert told in refusal(lambda: listed(tmp_path, table.refresh()))


@pytest.mark.parametrize("counts", [True, False])
def test_equality_deletes_are_refused_before_any_data_is_read(tmp_path: Path, counts: bool) -> None:
    table = made(tmp_path, rows([1, 2]))
    file = next(iter(table.scan().plan_files())).file.file_path
    deleted = delete_rows(table, {file: [0]}, DataFileContent.EQUALITY_DELETES, counts=counts)
    for data in Path(table.location().removeprefix("file://")).glob("data/*"):
        data.unlink()
    told = refusal(lambda: listed(tmp_path, deleted))
    assert "equality deletes" in told
    assert "history" in told


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.metadata.json").write_text("{}")
    for place in ("x.metadata.json", "none"):
        assert "can't be read as an Iceberg table" in refusal(
            partial(listed, tmp_path, tmp_path / place)
        )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"table": "shop.events"}, "has 2 parts"),
        ({"path": ["a", "b"]}, "names 2 tables"),
        ({"path": "a", "offsets": "names"}, "have no meaning with"),
        ({"path": "a", "offsets": {"partition": "p", "offset": "o"}}, "found by field id"),
        ({"path": "a", "discovery_interval": "1 min"}, "read at one version"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        source(**changes)
