"""A folder that keeps filling: each file is found once, whatever its times and whoever looks."""

from __future__ import annotations

import os
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError, StateError
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.files.file_plan import FoundFiles, read_splits
from sources.planning.plan import make_plan
from spark_jobs.inside.driver.discoverer import Discoverer
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from tests.minimal import minimal_model
from tests.properties import examples
from tests.services.processes import wait_for

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
COLUMNS = {"id": "bigint", "at": "timestamp"}
INBOX = {"type": "files", "name": "inbox", "format": "parquet", "discovery_interval": "1 s"}


def write(folder: Path, name: str, minute: int = 0, **columns: Any) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    at = pa.array([NOON + timedelta(minutes=minute)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": [minute], "at": at, **columns}), folder / name)
    return folder / name


def pipeline(folder: Path, *sources: dict[str, Any], **more: Any) -> LoadedPipeline:
    return LoadedPipeline(folder / "p.yaml", minimal_model(*sources, **more))


def history(**changes: Any) -> dict[str, Any]:
    return {"type": "files", "name": "history", "path": "old", "format": "parquet", **changes}


def inbox(**changes: Any) -> dict[str, Any]:
    return {**INBOX, "path": "new", **changes}


def folder_of(loaded: LoadedPipeline) -> GrowingFolder:
    generation = loaded.require_generation()
    return GrowingFolder(PipelineContext(loaded, generation))


def names(loaded: LoadedPipeline, found: FoundFiles | None) -> list[str]:
    if found is None:
        return []
    paths = read_splits(found, loaded.require_generation())["path"].to_pylist()
    return [Path(path).name for path in paths]


def test_what_is_there_is_planned_and_what_arrives_is_found_once(tmp_path: Path) -> None:
    write(tmp_path / "old", "a.parquet")
    write(tmp_path / "new", "b.parquet", 1)
    loaded = pipeline(tmp_path, history(), inbox())
    plan = make_plan(loaded)
    assert plan.folder is not None
    assert (plan.folder.splits, [part.source for part in plan.files]) == (1, ["history"])
    folder = folder_of(loaded)
    assert folder.discover() is None
    late = write(tmp_path / "new", "c.parquet", 2)
    os.utime(late, (0, 0))  # moved here with the times that it had elsewhere
    assert len(folder.undiscovered()) == 1
    assert names(loaded, folder.discover()) == ["c.parquet"]
    assert (folder.undiscovered(), folder.splits) == (set(), 2)
    assert folder.discover() is None
    # Whoever comes next knows all of it.
    after = folder_of(loaded)
    assert after.discover() is None
    assert [part.splits for part in after.parts] == [1, 1]


def test_a_file_that_history_reads_is_not_read_again(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / "old", f"{number}.parquet", number)
    loaded = pipeline(tmp_path, history(), inbox(path="old"))
    plan = make_plan(loaded)
    assert plan.folder is not None
    assert (plan.files[0].splits, plan.folder.splits) == (3, 0)
    write(tmp_path / "old", "3.parquet", 3)
    assert names(loaded, folder_of(loaded).discover()) == ["3.parquet"]


def write_by_duckdb(folder: Path, name: str, minute: int) -> Path:
    """A file of whose writer Spark reads all files."""
    folder.mkdir(exist_ok=True)
    at = f"make_timestamptz({int((NOON + timedelta(minutes=minute)).timestamp()) * 10**6})"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {minute}::BIGINT AS id, {at} AS at) TO '{folder / name}'")
    return folder / name


def test_a_file_that_spark_does_not_read_is_refused_until_it_has_another_name(
    tmp_path: Path,
) -> None:
    write_by_duckdb(tmp_path / "new", "a.parquet", 1)
    loaded = pipeline(tmp_path, history(), inbox())
    write(tmp_path / "old", "h.parquet")
    plan = make_plan(loaded)
    assert plan.folder is not None
    assert plan.folder.parsed is None
    odd = write_by_duckdb(tmp_path / "new", "b-10:00.parquet", 2)
    for _ in range(2):
        with pytest.raises(InputError, match=r"b-10:00\.parquet, which arrived .* colon") as told:
            folder_of(loaded).discover()
        assert "a name without a colon" in told.value.hint
    odd.rename(odd.with_name("b-1000.parquet"))
    assert names(loaded, folder_of(loaded).discover()) == ["b-1000.parquet"]


def test_a_file_with_a_colon_in_its_name_is_found_where_tasks_parse_the_others(
    tmp_path: Path,
) -> None:
    write_by_duckdb(tmp_path / "old", "a.parquet", 1)
    loaded = pipeline(tmp_path, history(), inbox(path="old"))
    plan = make_plan(loaded)
    assert plan.files[0].parsed is None
    write_by_duckdb(tmp_path / "old", "b-10:00.parquet", 2)
    assert names(loaded, folder_of(loaded).discover()) == ["b-10:00.parquet"]


@pytest.mark.parametrize("declared", [{}, {"schema": COLUMNS}])
def test_a_folder_without_a_file_has_the_columns_of_history(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    write(tmp_path / "old", "a.parquet")
    plan = make_plan(pipeline(tmp_path, history(), inbox(**declared)))
    assert plan.folder is not None
    assert (plan.folder.splits, plan.folder.bytes, plan.folder.columns) == (0, 0, COLUMNS)


def test_a_folder_alone_without_a_file_needs_a_schema(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`inbox` has no file of its own yet: its columns"):
        make_plan(pipeline(tmp_path, inbox()))
    assert not (tmp_path / "state").exists()
    assert make_plan(pipeline(tmp_path, inbox(schema=COLUMNS))).columns_by_name == COLUMNS


def test_columns_of_history_and_folder_are_shown_side_by_side(tmp_path: Path) -> None:
    write(tmp_path / "old", "a.parquet")
    loaded = pipeline(tmp_path, history(), inbox(schema={"id": "string", "at": "timestamp"}))
    with pytest.raises(InputError, match=r"id +\| bigint +\| string"):
        make_plan(loaded)


def test_a_file_with_other_columns_is_refused_when_it_arrives(tmp_path: Path) -> None:
    write(tmp_path / "new", "a.parquet")
    loaded = pipeline(tmp_path, inbox())
    make_plan(loaded)
    write(tmp_path / "new", "b.parquet", 1, more=["x"])
    folder = folder_of(loaded)
    with pytest.raises(InputError, match="column `more` of the files that arrived is string"):
        folder.discover()
    # Nothing was written down: once it is repaired it is read.
    write(tmp_path / "new", "b.parquet", 1)
    assert names(loaded, folder.discover()) == ["b.parquet"]


def test_a_file_that_history_reads_in_part_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "old", "a.parquet")
    cut = history(time_range={"until": "2024-01-02T00:00:00Z"})
    with pytest.raises(InputError, match=r"a\.parquet up to `time_range\.until`"):
        make_plan(pipeline(tmp_path, cut, inbox(path="old")))
    make_plan(pipeline(tmp_path, cut, inbox(schema=COLUMNS)))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"converge": {"gap": "1 min"}}, "`converge` has no meaning"),
        ({"complete_through": "2024-01-01T00:00:00Z"}, "`complete_through` has no meaning"),
        ({"time_range": {"since": "2024-01-01T00:00:00Z"}}, "`time_range` has no meaning"),
        ({"offsets": "names"}, "`offsets` has no meaning"),
        ({"discovery_interval": "0 s"}, "`discovery_interval` is 0 s; it must be longer than 0 s"),
        ({"format": "iceberg"}, "read at one version"),
    ],
)
def test_what_means_nothing_without_an_end_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        FileSource.model_validate(inbox(**changes))


def test_a_folder_without_end_comes_last(tmp_path: Path) -> None:
    with pytest.raises((ValidationError, InputError), match="has no end but is not the last"):
        pipeline(tmp_path, inbox(), history())


def test_a_source_does_not_become_endless_under_its_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "old", "a.parquet")
    make_plan(pipeline(tmp_path, history()))
    with pytest.raises(StateError, match=r"sources\.history\.end"):
        make_plan(pipeline(tmp_path, history(discovery_interval="1 s")))


STEPS = st.lists(st.sampled_from(["arrives", "old", "vanishes", "look", "again"]), max_size=25)


@examples(60)
@given(STEPS)
def test_each_file_is_found_once_whatever_happens_in_between(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    home = tmp_path_factory.mktemp("case")
    loaded = pipeline(home, inbox(schema=COLUMNS))
    make_plan(loaded)
    folder = folder_of(loaded)
    found: Counter[str] = Counter()
    waiting: set[str] = set()
    for number, step in enumerate([*steps, "look"]):
        if step in ("arrives", "old"):
            path = write(home / "new", f"{number}.parquet", number)
            waiting.add(path.name)
            if step == "old":
                os.utime(path, (number, number))
        elif step == "vanishes" and found:
            # What was found may be tidied away.
            (home / "new" / min(found)).unlink(missing_ok=True)
        elif step == "look":
            found.update(names(loaded, folder.discover()))
        elif step == "again":
            folder = folder_of(loaded)
    assert found == Counter(waiting)


class SlowFolder(GrowingFolder):
    """One whose listing takes until somebody lets it end."""

    may_end: threading.Event

    def discover(self) -> FoundFiles | None:
        self.may_end.wait(30)
        return super().discover()


def slow(loaded: LoadedPipeline) -> SlowFolder:
    folder = SlowFolder(PipelineContext.require(loaded))
    folder.may_end = threading.Event()
    return folder


def test_nobody_waits_for_a_slow_listing_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    loaded = pipeline(tmp_path, inbox(schema=COLUMNS))
    make_plan(loaded)
    write(tmp_path / "new", "a.parquet")
    folder = slow(loaded)
    with Discoverer(folder) as discoverer:
        assert discoverer.take() is None  # at once, though it is being listed
        folder.may_end.set()
        taken: list[FoundFiles] = []

        def has_found() -> bool:
            taken.extend(filter(None, [discoverer.take()]))
            return bool(taken)

        wait_for(has_found, "a find")
    assert names(loaded, taken[0]) == ["a.parquet"]


def test_two_discoveries_at_once_agree_on_what_was_found(tmp_path: Path) -> None:
    loaded = pipeline(tmp_path, inbox(schema=COLUMNS))
    make_plan(loaded)
    first, second = folder_of(loaded), folder_of(loaded)
    write(tmp_path / "new", "a.parquet")
    assert names(loaded, first.discover()) == ["a.parquet"]
    write(tmp_path / "new", "b.parquet", 1)
    # The second one saw both files, but the first one's word stands.
    assert names(loaded, second.discover()) == ["a.parquet"]
    assert names(loaded, second.discover()) == ["b.parquet"]


def test_what_goes_wrong_in_a_listing_reaches_the_run(tmp_path: Path) -> None:
    loaded = pipeline(tmp_path, inbox(schema=COLUMNS))
    make_plan(loaded)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.parquet").write_bytes(b"PAR1 no footer PAR1")
    with (
        Discoverer(folder_of(loaded)) as discoverer,
        pytest.raises(InputError, match=r"a\.parquet"),
    ):
        wait_for(lambda: discoverer.take() is not None, "what went wrong")


@pytest.mark.parametrize("first", [1, 0], ids=["to files of types", "to none"])
def test_a_column_without_any_value_may_arrive_without_a_type(tmp_path: Path, first: int) -> None:
    write(tmp_path / "old", "a.parquet", note=["x"])
    for number in range(first):
        write(tmp_path / "new", f"{number}.parquet", 1, note=["y"])
    loaded = pipeline(tmp_path, history(), inbox())
    plan = make_plan(loaded)
    assert plan.folder is not None
    write(tmp_path / "new", "later.parquet", 2, note=pa.nulls(1))
    folder = folder_of(loaded)
    assert names(loaded, folder.discover()) == ["later.parquet"]
    source = loaded.pipeline.growing_folder
    assert source is not None
    generation, event_time = loaded.require_generation(), loaded.pipeline.event_time
    # Files that Spark's own reader takes would be refused here.
    stores = loaded.pipeline.stores
    assert PlannedSource(source, folder.parts, generation, event_time, stores).entries
