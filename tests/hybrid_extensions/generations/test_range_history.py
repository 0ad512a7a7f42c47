"""Which files of a table hold history: all until a stream starts, then those of that moment."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from hybrid_extensions.generations.files.range_history import (
    RANGES,
    REMOVED,
    RemovedFiles,
    history_files,
    range_transaction,
)
from sources.errors import StateError
from sources.planning.context import PipelineContext
from spark_jobs.table.delta_table import paths_of
from spark_jobs.table.history_files import HistoryFiles, record_history_files
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.live_case import LiveCase


def of_bounded(folder: Path) -> PipelineContext:
    case = GenerationCase(folder)
    return PipelineContext(case.loaded, case.run({1: 10, 2: 20}))


def test_without_a_stream_all_files_hold_history(tmp_path: Path) -> None:
    context = of_bounded(tmp_path)
    paths = set(paths_of(DeltaTable(tmp_path / "out")))
    assert paths
    assert history_files(context, context.loaded.target) == HistoryFiles(paths, set())


def test_files_that_were_recorded_are_those_and_what_backfills_removed_is_gone(
    tmp_path: Path,
) -> None:
    context = of_bounded(tmp_path)
    record_history_files(context.generation, ["a.parquet", "b.parquet"])
    recorded = {"a.parquet", "b.parquet"}
    assert history_files(context, context.loaded.target) == HistoryFiles(recorded, set())
    generation, empty = context.generation, DeltaTable(tmp_path / "out").to_pyarrow_table()[:0]
    ranges = generation.folder(RANGES)
    for number, path in enumerate(("a.parquet", "c.parquet")):
        ranges.replace(f"{number}/{REMOVED}", RemovedFiles(paths=[path]))
        once = CommitProperties(
            app_transactions=[Transaction(range_transaction(generation, f"{number}"), 1)]
        )
        write_deltalake(tmp_path / "out", empty, mode="append", commit_properties=once)
    gone = {"a.parquet", "c.parquet"}
    assert history_files(context, context.loaded.target) == HistoryFiles(recorded, gone)
    # Of a process that was killed before its commit: the file is in the table, unless others
    # have removed it since, which is to be noticed.
    ranges.replace(f"2/{REMOVED}", RemovedFiles(paths=["b.parquet"]))
    assert history_files(context, context.loaded.target) == HistoryFiles(recorded, gone)


def test_a_stream_that_was_requested_and_has_not_started_leaves_it_unknown(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    context = PipelineContext(case.loaded, case.generation)
    write_deltalake(tmp_path / "out", pa.table({"id": [1]}))
    paths = set(paths_of(DeltaTable(tmp_path / "out")))
    assert history_files(context, case.loaded.target) == HistoryFiles(paths, set())
    case.ask_for_it()
    with pytest.raises(StateError, match=r"has no record .* of which files of its table hold"):
        history_files(context, case.loaded.target)
