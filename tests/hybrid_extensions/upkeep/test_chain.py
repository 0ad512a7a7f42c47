"""Upkeep of a table next to its live stream, and ranges of history after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.hand_over import hand_over
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from sources.state.action_log import read_actions
from sources.storage.folder import Folder
from spark_jobs.run_state.table_locks import table_turn
from spark_jobs.table.commit_log import CommitLog
from tests.command_line import invoke
from tests.e2e.case import Case, live_of, moment
from tests.e2e.in_session import DEADLINE_S, run_history, run_live
from tests.services.processes import is_awaited, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
COMMITS = 6


def call(command: str, loaded: LoadedPipeline, *more: str) -> dict[str, Any]:
    """The answer of a command."""
    done = invoke([command, str(loaded.path), "--json", *more])
    answer = json.loads(done.stdout)
    assert done.exit_code == 0, answer
    return dict(answer)


def merged(document: dict[str, Any]) -> None:
    """Update rows by key; each key has one row."""
    document["sink"]["mode"] = "merge"
    document["audit"] = {"sql": "rows.sql"}


def require_turns(case: Case, loaded: LoadedPipeline, produced: int) -> int:
    """A micro-batch that has begun is not merged while somebody commits a compaction."""
    generation = loaded.require_generation()
    with table_turn(generation):
        version = DeltaTable(case.folder / "out").version()
        case.produce(range(produced, produced + 5))
        lock = Path(generation.path("run/table.lock"))
        wait_for(lambda: is_awaited(lock), "a micro-batch to wait for its turn", DEADLINE_S)
        assert DeltaTable(case.folder / "out").version() == version
    return produced + 5


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_small_files_are_compacted_while_the_stream_writes(
    tmp_path: Path, servers: str, spark: SparkSession, mode: str
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "rows.sql").write_text('SELECT id, "at", v FROM input')
    case.write_history()  # 4 files of 250, read in two micro-batches
    case.produce(range(1000, 1100))
    loaded = case.pipeline(merged if mode == "merge" else lambda _: None)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    keep_definition(loaded, loaded.require_generation())
    commits, produced = 0, 1100

    def upkeep() -> None:
        nonlocal produced

        def are_enough() -> bool:
            nonlocal commits, produced
            case.produce(range(produced, produced + 5))
            produced += 5
            commits += int(call("compact", loaded)["commits"])
            return commits >= COMMITS

        wait_for(are_enough, "commits of compactions next to the stream", DEADLINE_S)
        if mode == "merge":
            produced = require_turns(case, loaded, produced)

    run_live(spark, loaded, meanwhile=upkeep)
    log, last_version = CommitLog(Folder(tmp_path / "out")), DeltaTable(tmp_path / "out").version()
    writers = [each.operation for each in log.between(0, last_version)]
    first, last = (writers.index("OPTIMIZE"), len(writers) - writers[::-1].index("OPTIMIZE"))
    live = "WRITE" if mode == "append" else "MERGE"
    assert live in writers[first:last], "the stream went on meanwhile"
    call("compact", loaded)
    report = audit(loaded)
    assert report.outcome == "passed"
    assert DeltaTable(tmp_path / "out").to_pyarrow_table().num_rows == produced
    assert read_actions(loaded.state)[-1].action == "compact"
    files = len(DeltaTable(tmp_path / "out").file_uris())
    assert files == (2 if mode == "append" else 1)
    if mode == "append":
        # The stream's rows of that time stay, and history's are replaced.
        since, until = (f"{moment(n):%Y-%m-%dT%H:%M:%SZ}" for n in (300, 540))
        replaced = call("backfill", loaded, "--since", since, "--until", until)
        assert (replaced["removed"], replaced["written"]) == (240, 240)
        assert audit(loaded).outcome == "passed"
