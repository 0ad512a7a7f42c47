"""Chunks of a snapshot that is still being read: each is planned once, when it is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sources.common.database_snapshot import BinlogSnapshot
from sources.common.schema import parse_schema
from sources.config.loader import LoadedPipeline
from sources.config.source.snapshot import MANIFEST, Chunk, SnapshotManifest, chunk_name
from sources.errors import StateError
from sources.files.listing.source_listing import list_source
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import keep_splits, plan_files
from sources.planning.files.open_snapshot import (
    OpenSnapshot,
    find_whole,
    open_in_words,
    open_source,
    require_whole,
)
from sources.planning.files.rounds import history_of
from sources.planning.plan import Plan
from tests.captured_table import NO_SERVER, captured_table

SEEN = BinlogSnapshot(file=3, offset=484, domain=0, sequence=42, taken_ms=1_700_000_000_000)


def write(loaded: LoadedPipeline, done: list[int], files: list[int], total: int = 4) -> None:
    """Leave a snapshot of some chunks, of which the manifest names some."""
    folder = loaded.path.parent / "snapshot"
    folder.mkdir(exist_ok=True)
    topic = loaded.pipeline.topics[0]
    columns = parse_schema(topic.declared_columns or {})
    for number in files:
        row = {
            name: [SEEN.envelope().get(topic.include.get(name, ""), None)] for name in columns.names
        }
        row["id"] = [number]
        pq.write_table(pa.table(row, schema=columns), folder / chunk_name(number))
    manifest = SnapshotManifest(
        table="shop.orders",
        key=("id", "bigint"),
        bounds=[str(number) for number in range(1, total)],
        snapshots=[SEEN],
        offsets={},
        done={number: Chunk(rows=1, snapshot=0) for number in done},
    )
    (folder / MANIFEST).write_text(manifest.model_dump_json())


def planned(loaded: LoadedPipeline) -> PipelineContext:
    """Plan the files alone, without a broker."""
    generation = loaded.open_generation(create=True)
    assert generation is not None
    [source] = loaded.pipeline.file_sources
    listing = list_source(loaded, source)
    assert listing is not None
    part, _ = plan_files(loaded, source, listing)
    keep_splits(part, listing, generation)
    plan = Plan(
        pipeline=loaded.pipeline.name,
        created_ms=0,
        files=[part],
        archives=[],
        topic=None,
        warnings=[],
        folder=None,
    )
    generation.put_if_absent("plan.json", plan)
    return PipelineContext.require(loaded)


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPipeline:
    made = captured_table(tmp_path, {**NO_SERVER, "follow": "while_reading"})
    write(made, [0], [0, 1])
    return made


def test_a_chunk_is_planned_once_its_manifest_names_it(loaded: LoadedPipeline) -> None:
    context = planned(loaded)
    [source] = loaded.pipeline.file_sources
    # The file of chunk 1 was written by a process that was killed before it named it.
    assert context.plan.files_of("snapshot").splits == 1
    snapshot = OpenSnapshot(context, source)
    assert snapshot.discover() is None
    write(loaded, [0, 3], [1, 2, 3])
    arrived = snapshot.discover()
    assert arrived is not None
    assert arrived.splits == 1
    assert snapshot.discover() is None
    write(loaded, [0, 1, 2, 3], [])
    # Another driver knows what the first one has planned.
    again = OpenSnapshot(context, source)
    assert again.splits == 2
    assert [found and found.splits for found in (again.discover(), snapshot.discover())] == [2, 2]
    assert [again.discover(), again.is_complete, again.splits] == [None, True, 4]
    assert len(history_of(context.generation, context.plan, "snapshot").parts) == 3


def test_until_the_last_chunk_is_merged_the_table_is_not_whole(loaded: LoadedPipeline) -> None:
    context = planned(loaded)
    [source] = loaded.pipeline.file_sources
    assert open_source(context) is source
    text = "snapshot: 1 of 4 chunks; the table is not whole yet"
    assert open_in_words(context) == text
    told = f"`orders` can't be compared: {text}. `hybrid run P`"
    with pytest.raises(StateError, match=told) as refused:
        require_whole(context, "compared")
    assert refused.value.transient
    mark = OpenSnapshot(context, source).keep_whole()
    assert find_whole(context.generation, "snapshot") == mark
    assert (open_source(context), open_in_words(context)) == (None, None)
    require_whole(context, "compared")


def test_without_its_manifest_it_is_no_matter_of_time(loaded: LoadedPipeline) -> None:
    context = planned(loaded)
    manifest = loaded.path.parent / "snapshot" / MANIFEST
    manifest.unlink()
    with pytest.raises(StateError, match=f"has lost {MANIFEST}.* Restore {manifest}") as refused:
        require_whole(context, "compared")
    assert not refused.value.transient
    assert "hybrid run P" not in str(refused.value)


def test_a_snapshot_that_was_complete_when_it_was_planned_is_whole(loaded: LoadedPipeline) -> None:
    write(loaded, [0, 1], [0, 1], total=2)
    context = planned(loaded)
    assert (open_source(context), open_in_words(context)) == (None, None)


def test_without_the_declaration_an_incomplete_snapshot_is_refused(tmp_path: Path) -> None:
    made = captured_table(tmp_path, NO_SERVER)
    write(made, [0], [0])
    with pytest.raises(StateError, match="1 of 4 chunks are written"):
        planned(made)


def test_a_snapshot_whose_manifest_is_lost_is_said(loaded: LoadedPipeline) -> None:
    context = planned(loaded)
    (loaded.path.parent / "snapshot" / MANIFEST).unlink()
    assert "has lost _manifest.json; the table is not whole" in str(open_in_words(context))
