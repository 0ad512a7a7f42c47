"""Upkeep of a pipeline's table: what it keeps, what it waits for, and how it is asked for."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from deltalake import DeltaTable

from hybrid_extensions.generations.switch.lock import hold_switch_lock
from hybrid_extensions.generations.switch.promotion import promote, roll_back
from hybrid_extensions.upkeep import compaction, vacuum
from orchestration.defs.keys import ACTION_TAG
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import load_pipeline
from sources.errors import StateError
from sources.kept_definitions import keep_definition
from sources.serving import Switch
from sources.state.action_log import read_actions
from sources.storage.folder import Folder
from spark_jobs.run_state.requested_state import request
from spark_jobs.run_state.table_locks import table_turn
from spark_jobs.table.history_files import keep_history_files
from spark_jobs.table.ownership.belonging import require_belonging
from tests.command_line import invoke
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, two
from tests.orchestration.generations.generation_case import GenerationCase
from tests.services.processes import is_awaited, wait_for
from tests.spark_jobs.table.target_case import TargetCase

TWO_DAYS_S = 2 * 86_400


def live(folder: Path, mode: str = "append") -> TargetCase:
    """A table with three files of history and three of a stream."""
    case = TargetCase(folder, mode)
    keep_definition(case.loaded, case.generation)
    case.run(0, 1, 2)
    keep_history_files(case.generation, Folder(case.out), Folder(case.out))
    request(case.generation, "inbox", is_requested=True)
    case.run(3, 4, 5)
    return case


def call(case: TargetCase, command: str, *more: str) -> dict[str, Any]:
    path = str(case.loaded.path)
    done = invoke([command, path, "--json", "--by", "Ada", *more])
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def files(case: TargetCase) -> int:
    return len(case.table.file_uris())


@pytest.mark.parametrize(("mode", "left"), [("append", 2), ("merge", 1)])
def test_the_pipeline_goes_on_after_a_compaction_of_its_own(
    tmp_path: Path, mode: str, left: int
) -> None:
    case = live(tmp_path, mode)
    guard = case.start()
    would = call(case, "compact", "--dry-run")
    assert (would["ok"], would["new_files"], files(case)) == (True, left, 6)
    done = call(case, "compact")
    assert (done["ok"], done["history_files"] + done["live_files"]) == (True, 6)
    assert files(case) == left
    guard.look()
    case.batches(6)
    guard.look()
    require_belonging(case.loaded, case.generation)
    assert case.table.to_pyarrow_table().num_rows == 7
    [action] = read_actions(case.loaded.state)
    assert (action.action, action.by, action.outcome) == ("compact", "Ada", "done")
    assert action.after["files"].startswith("6 files (")


def test_a_commit_waits_until_the_merge_has_ended(tmp_path: Path) -> None:
    case = live(tmp_path, "merge")
    is_done = threading.Event()

    def compact() -> None:
        compaction.compact(case.loaded)
        is_done.set()

    thread = threading.Thread(target=compact)
    with table_turn(case.generation):
        thread.start()
        wait_for(lambda: any(Path(case.out).glob("compacted-*")), "the compacted file")
        lock = Path(case.generation.path("run/table.lock"))
        wait_for(lambda: is_awaited(lock), "the compaction to wait for its turn")
        assert not is_done.is_set()
        assert files(case) == 6
    thread.join(60)
    assert (is_done.is_set(), files(case)) == (True, 1)


@pytest.mark.parametrize("change", [compaction.compact, vacuum.vacuum])
def test_upkeep_is_refused_during_a_promotion(tmp_path: Path, change: Any) -> None:
    case = live(tmp_path)
    with (
        hold_switch_lock(case.loaded, "promotion of g2"),
        pytest.raises(StateError, match="another process is changing the table") as refused,
    ):
        change(case.loaded)
    assert refused.value.transient


def test_vacuum_waits_for_the_end_of_a_promotion_that_was_interrupted(tmp_path: Path) -> None:
    case = live(tmp_path)
    switch = Switch(to="g2", past="g1", at_ms=1, is_rollback=False)
    case.loaded.state.replace(Switch.NAME, switch)
    with pytest.raises(StateError, match="promotion of generation g2 was interrupted"):
        vacuum.vacuum(case.loaded)


@pytest.mark.parametrize("keep", [1, 0])
def test_vacuum_keeps_what_a_rollback_needs_as_long_as_it_is_offered(
    tmp_path: Path, keep: int
) -> None:
    case: GenerationCase = two(tmp_path)
    case.write(generations={"keep": keep})
    promote(case.loaded)
    table = DeltaTable(case.loaded.target.url)
    before = len([*Path(case.loaded.target.url).glob("*.parquet")])
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 hours"})
    then = time.time() - TWO_DAYS_S
    for each in Path(case.loaded.target.url).glob("*.parquet"):
        os.utime(each, (then, then))
    found = vacuum.vacuum(case.loaded)
    assert (len(found.files) > 0) == (keep == 0)
    assert len([*Path(case.loaded.target.url).glob("*.parquet")]) == before - len(found.files)
    assert case.seen() == NEW
    if keep:
        roll_back(case.loaded)
        assert case.seen() == OLD


def test_dagster_compacts_by_schedule(tmp_path: Path) -> None:
    case = live(tmp_path)
    document = yaml.safe_load(case.loaded.path.read_text())
    document["upkeep"] = [
        {"name": "small_files", "cron": "0 */6 * * *"},
        {"name": "unneeded", "cron": "0 4 * * *", "action": "vacuum"},
    ]
    case.loaded.path.write_text(yaml.safe_dump(document))
    defs = pipeline_definitions(load_pipeline(case.loaded.path))
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        for name, action in (("small_files", "COMPACT"), ("unneeded", "VACUUM")):
            schedule = defs.resolve_schedule_def(f"events_{name}")
            tick = schedule.evaluate_tick(dg.build_schedule_context(instance=instance))
            [asked] = tick.run_requests or []
            assert asked.tags[ACTION_TAG] == action
            job = defs.resolve_job_def("events_control")
            assert job.execute_in_process(
                instance=instance, run_config=asked.run_config, tags=dict(asked.tags)
            ).success
    assert files(case) == 2
    assert [each.action for each in read_actions(case.loaded.state)] == ["compact", "vacuum"]
