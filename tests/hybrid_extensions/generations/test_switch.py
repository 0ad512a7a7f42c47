"""A promotion or rollback is checked before its first step; one that breaks off can be given up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.generations.files.take_over import TakeOver
from hybrid_extensions.generations.switch import promotion, surplus
from hybrid_extensions.generations.switch import steps as switch_steps
from orchestration.operations import live_run
from orchestration.supervision.watch_memory import Watch, write_watch
from sources import generations
from sources.errors import InputError, StateError
from sources.generations import begin
from sources.serving import (
    OWNER,
    own_table,
    pending_switch,
    read_serving,
    require_in_service,
    target_of,
)
from sources.state.action_log import read_actions
from sources.state.generation import read_generation
from spark_jobs.launch import run_control
from spark_jobs.run_state.requested_state import read_requested, request, require_requested
from spark_jobs.table.ownership.belonging import require_belonging
from tests.extensions import needs
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, call, two
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.hook import listening

# Each step of a switch, and whether the target holds the new rows when it breaks off.
STEPS: list[tuple[Any, str]] = [
    (switch_steps, "end_runs"),
    (run_control, "stop"),
    (switch_steps, "prepare"),
    (TakeOver, "_bring"),
    (TakeOver, "commit"),
    (switch_steps, "record"),
    (switch_steps, "write_serving"),
    (switch_steps, "restore_request"),
    (shutil, "rmtree"),
    (Path, "unlink"),
    (surplus, "clean"),
]
BROKEN = [(where, name, done) for where, name in STEPS for done in (False, True)]
BEFORE = [each for each in BROKEN if not each[2]]


def broken_off(
    case: GenerationCase,
    monkeypatch: pytest.MonkeyPatch,
    at: tuple[Any, str, bool],
    change: Callable[..., object] = promotion.promote,
) -> None:
    """Break a switch off like a kill: before a step (``False``), or after it."""
    where, name, done = at
    step = getattr(where, name)
    with monkeypatch.context() as patch:

        def crash(*args: Any, **options: Any) -> None:
            if pending_switch(case.loaded) is None and name != "clean":
                # The checks, before the first step.
                return step(*args, **options)  # type: ignore[no-any-return]
            if done:
                step(*args, **options)
            raise KeyboardInterrupt

        patch.setattr(where, name, crash)
        with pytest.raises(KeyboardInterrupt):
            change(case.loaded)


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, without locks, which are empty, and the log, which only grows."""
    every = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    files = (path for path in every if path.parent.name != "actions")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def read(folder: Path) -> dict[str, bytes]:
    """Its files, without commits that neither rows nor properties of a table are changed by."""
    return {name: data for name, data in content(folder).items() if not is_empty_commit(name, data)}


def is_empty_commit(name: str, data: bytes) -> bool:
    if "/_delta_log/" not in name or not name.endswith(".json"):
        return False
    return {next(iter(json.loads(line))) for line in data.splitlines()} <= {"commitInfo", "txn"}


def owner(case: GenerationCase) -> str:
    return str(DeltaTable(case.folder / "out").metadata().configuration[OWNER])


@pytest.mark.parametrize("at", BROKEN, ids=str)
def test_a_promotion_that_breaks_off_anywhere_is_finished_by_whoever_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: tuple[Any, str, bool]
) -> None:
    case = two(tmp_path)
    broken_off(case, monkeypatch, at)
    seen = case.seen()
    assert seen in (OLD, NEW), "readers see the one or the other"
    # The rows and their owner come together: no generation is left that can never run.
    names = {line.name: line.info.transaction_id for line in generations.generations(case.loaded)}
    assert owner(case) == names["g1" if seen == OLD else "g2"]
    if pending_switch(case.loaded) is not None:
        # Until it is finished, neither of them is started.
        with pytest.raises(StateError, match="g2 of `events` is replacing g1"):
            require_in_service(case.loaded, case.loaded.require_generation())
    assert call(case, "finish")["serving"] == "g2"
    assert case.seen() == NEW
    assert owner(case) == names["g2"]
    assert not own_table(case.loaded, "g2").root.exists()
    assert call(case, "rollback")["serving"] == "g1"
    assert (case.seen(), owner(case)) == (OLD, names["g1"])
    # Whoever completed the promotion: it was one, of the person who began it.
    assert switches(case) == [("promotion", "g2", "done"), ("rollback", "g1", "done")]


def switches(case: GenerationCase) -> list[tuple[str, str | None, str]]:
    """What the log of actions says about promotions and rollbacks."""
    actions = read_actions(case.loaded.state)
    kinds = ("promotion", "rollback")
    return [
        (each.action, each.generation, each.outcome) for each in actions if each.action in kinds
    ]


def test_a_change_by_others_under_a_promotion_that_broke_off_is_refused_until_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    broken_off(case, monkeypatch, (TakeOver, "commit", False))
    serving = read_generation(case.loaded.state, "g1")
    require_belonging(case.loaded, serving)
    rows = DeltaTable(tmp_path / "out").to_pyarrow_table().slice(0, 1)
    write_deltalake(tmp_path / "out", rows, mode="append")
    with pytest.raises(StateError, match="something other than this pipeline"):
        require_belonging(case.loaded, serving)
    # The promotion replaces these rows.
    broken_off(case, monkeypatch, (TakeOver, "commit", True), promotion.finish)
    require_belonging(case.loaded, serving)
    assert call(case, "finish")["serving"] == "g2"
    assert case.seen() == NEW


def test_rows_that_others_added_to_the_candidate_never_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    broken_off(case, monkeypatch, (switch_steps, "end_runs", False))
    candidate = own_table(case.loaded, "g2").url
    rows = DeltaTable(candidate).to_pyarrow_table().slice(0, 1)
    write_deltalake(candidate, rows, mode="append")
    with pytest.raises(StateError, match="something other than this pipeline") as refused:
        promotion.finish(case.loaded)
    assert "hybrid generation abort P" in refused.value.hint
    assert case.seen() == OLD
    assert call(case, "abort")["aborted"] is not None
    with pytest.raises(StateError, match="something other than this pipeline"):
        promotion.promote(case.loaded)
    assert pending_switch(case.loaded) is None


def test_a_rollback_to_rows_that_others_changed_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    broken_off(case, monkeypatch, (TakeOver, "commit", False))
    rows = DeltaTable(tmp_path / "out").to_pyarrow_table().slice(0, 1)
    write_deltalake(tmp_path / "out", rows, mode="append")
    assert call(case, "finish")["serving"] == "g2"
    before = content(tmp_path)
    with pytest.raises(StateError, match="a rollback would return to these rows") as refused:
        promotion.roll_back(case.loaded)
    assert "hybrid generation new P" in refused.value.hint
    assert (content(tmp_path), case.seen()) == (before, NEW)


def test_a_rollback_of_a_deleted_target_is_refused_with_a_way_out(tmp_path: Path) -> None:
    case = two(tmp_path)
    promotion.promote(case.loaded)
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(InputError, match=f"The table {tmp_path / 'out'} can't be read") as refused:
        promotion.roll_back(case.loaded)
    assert "hybrid generation new P" in refused.value.hint
    assert pending_switch(case.loaded) is None


@pytest.mark.parametrize("at", BEFORE, ids=str)
def test_until_its_commit_an_aborted_promotion_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: tuple[Any, str, bool]
) -> None:
    case = two(tmp_path)
    request(read_generation(case.loaded.state, "g1"), "history", is_requested=False)
    before = read(tmp_path)
    broken_off(case, monkeypatch, at)
    if pending_switch(case.loaded) is None:
        assert call(case, "abort")["aborted"] is None
        return
    if case.seen() == OLD:
        assert call(case, "abort")["aborted"] == "g2"
        assert read(tmp_path) == before
        assert switches(case) == [("promotion", "g2", "given up")]
        assert call(case, "abort")["aborted"] is None
        # It can be begun again.
        assert call(case, "promote")["serving"] == "g2"
    else:
        refused = call(case, "abort", status=2)
        assert "readers see its rows" in refused["message"]
        assert f"hybrid generation finish {case.folder / 'events.yaml'}`" in refused["hint"]
        assert call(case, "finish")["serving"] == "g2"
    assert case.seen() == NEW


@pytest.mark.parametrize("at", BEFORE[2:], ids=str)
def test_until_its_commit_an_aborted_rollback_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: tuple[Any, str, bool]
) -> None:
    case = two(tmp_path)
    promotion.promote(case.loaded)
    before = read(tmp_path)
    broken_off(case, monkeypatch, at, promotion.roll_back)
    if pending_switch(case.loaded) is None:
        assert case.seen() == OLD
        return
    if case.seen() == NEW:
        assert call(case, "abort")["aborted"] == "g1"
        assert read(tmp_path) == before
    else:
        assert "readers see its rows" in call(case, "abort", status=2)["message"]
        assert call(case, "finish")["serving"] == "g1"
        assert case.seen() == OLD


@pytest.mark.parametrize("is_paused", [False, True])
def test_an_aborted_switch_requests_again_what_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_paused: bool
) -> None:
    case = two(tmp_path)
    old = read_generation(case.loaded.state, "g1")
    request(old, "history", is_requested=True)
    wanted = read_requested(old)
    assert wanted is not None
    if is_paused:
        wanted = wanted.model_copy(update={"is_requested": False, "is_paused": True, "why": "x"})
        old.replace("run/requested.json", wanted)
    broken_off(case, monkeypatch, (TakeOver, "commit", False))
    stopped = read_requested(old)
    assert stopped is not None
    assert not stopped.is_requested
    assert not stopped.is_paused
    started: list[str] = []
    monkeypatch.setattr(
        live_run, "resume", lambda context, _: started.append(context.generation.name)
    )
    promotion.abort(case.loaded)
    assert read_requested(old) == wanted
    assert started == ([] if is_paused else ["g1"])


def vacuum(case: GenerationCase) -> None:
    table = DeltaTable(case.folder / "out")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def test_a_rollback_whose_files_were_vacuumed_is_refused_before_anything_is_stopped(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    promotion.promote(case.loaded)
    kept = {path: path.read_bytes() for path in (tmp_path / "out").glob("*.parquet")}
    vacuum(case)
    before = content(tmp_path)
    refused = call(case, "rollback", status=2)
    assert "is missing, so its rows can't be brought into the table" in refused["message"]
    assert content(tmp_path) == before
    assert case.seen() == NEW
    # Both ways out that it names: the files are put back, or the rows are computed again.
    assert "Restore the file from a backup" in refused["hint"]
    assert f"hybrid generation new {case.folder / 'events.yaml'}`" in refused["hint"]
    assert call(case, "new")["generation"] == "g3"
    assert call(case, "discard")["discarded"] == "g3"
    for path, data in kept.items():
        path.write_bytes(data)
    assert call(case, "rollback")["serving"] == "g1"
    assert case.seen() == OLD


def test_a_promotion_that_becomes_impossible_on_the_way_can_be_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    before = content(tmp_path)
    broken_off(case, monkeypatch, (switch_steps, "end_runs", True))
    [file] = (tmp_path / "out.g2").glob("*.parquet")
    data = file.read_bytes()
    file.unlink()
    refused = call(case, "finish", status=2)
    assert "is missing" in refused["message"]
    way = f"generation abort {case.folder / 'events.yaml'}` returns to generation g1"
    assert way in refused["hint"]
    assert call(case, "abort")["serving"] == "g1"
    file.write_bytes(data)
    assert content(tmp_path) == before


def test_another_partitioning_is_refused_before_anything_is_stopped_and_the_way_out_works(
    tmp_path: Path,
) -> None:
    case = GenerationCase(tmp_path)
    case.run(OLD)
    begin(case.loaded)
    sink = {"path": "out", "mode": "append", "key": ["id"]}
    case.write(sink={**sink, "partition_by": ["id"]})
    begin(case.loaded)
    generation = case.run(NEW)
    own = target_of(case.loaded, generation.name).root
    for path in sorted((own / "_delta_log").glob("*.json")):
        text = path.read_text().replace('"partitionColumns":[]', '"partitionColumns":["id"]')
        path.write_text(text)
    before = content(tmp_path)
    refused = call(case, "promote", status=2)
    assert "is partitioned by id, but" in refused["message"]
    assert content(tmp_path) == before
    # Declare what the hint says, discard, begin another one.
    case.write()
    assert call(case, "discard")["discarded"] == "g2"
    assert call(case, "new")["generation"] == "g3"
    case.run(NEW)
    assert call(case, "promote")["serving"] == "g3"
    assert case.seen() == NEW


def test_a_feature_that_can_not_be_carried_is_refused_before_anything_is_stopped(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    log = tmp_path / "out/_delta_log"
    feature = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}
    (log / f"{2:020d}.json").write_text(json.dumps({"protocol": feature}))
    before = content(tmp_path)
    assert "`rowTracking`" in call(case, "promote", status=2)["message"]
    assert content(tmp_path) == before


def test_rows_that_another_writer_adds_during_a_promotion_are_there_after_the_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    old, commit = read_generation(case.loaded.state, "g1"), TakeOver.commit
    late = [pa.table({"id": [77], "v": [7]})]

    def meanwhile(self: TakeOver, *given: Any) -> None:
        if late:
            case.append(old, late.pop(), 1)
        commit(self, *given)

    monkeypatch.setattr(TakeOver, "commit", meanwhile)
    promotion.promote(case.loaded)
    assert case.seen() == NEW
    promotion.roll_back(case.loaded)
    assert case.seen() == {**OLD, 77: 7}


def test_a_generation_without_any_row_can_write_after_the_rollback_to_it(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    first = case.run({})
    # As if its first micro-batch was never committed.
    shutil.rmtree(tmp_path / "out")
    DeltaTable.create(
        tmp_path / "out",
        pa.schema([("id", pa.int64()), ("v", pa.int64())]),
        configuration={OWNER: first.info.transaction_id},
        raise_if_key_not_exists=False,
    )
    begin(case.loaded)
    case.run(NEW)
    promotion.promote(case.loaded)
    promotion.roll_back(case.loaded)
    assert case.seen() == {}
    version = DeltaTable(tmp_path / "out").transaction_version(case.query(first))
    assert version is not None
    assert version < 0, "Delta writes micro-batch 0 of this query"
    promotion.roll_back(case.loaded)
    assert case.seen() == NEW


def test_a_promotion_that_keeps_none_of_the_earlier_ones_can_break_off_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path, generations={"keep": 0})
    broken_off(case, monkeypatch, (surplus, "clean", True))
    assert call(case, "finish")["serving"] == "g2"
    assert read_serving(case.loaded).before == []
    assert case.seen() == NEW


def test_what_was_changed_in_the_file_keeps_no_promotion_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    broken_off(case, monkeypatch, (TakeOver, "commit", True))
    case.write(allowed_lateness="1 h")
    with pytest.raises(StateError, match="changed since generation"):
        case.loaded.require_generation()
    assert call(case, "finish")["serving"] == "g2"


def test_a_promotion_makes_the_target_again_whose_folder_was_deleted(tmp_path: Path) -> None:
    case = two(tmp_path)
    shutil.rmtree(tmp_path / "out")
    call(case, "promote")
    assert case.seen() == NEW
    assert owner(case) == read_generation(case.loaded.state, "g2").info.transaction_id
    # Its versions are none of those that the other one had: nothing can be rolled back to.
    assert (read_serving(case.loaded).before, len(call(case, "list")["generations"])) == ([], 1)
    refused = call(case, "rollback", status=2)
    assert "nothing to roll back to" in str(refused)
    assert case.seen() == NEW


@pytest.mark.parametrize("at", BROKEN, ids=str)
def test_a_promotion_to_a_deleted_target_that_breaks_off_anywhere_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: tuple[Any, str, bool]
) -> None:
    case = two(tmp_path)
    shutil.rmtree(tmp_path / "out")
    broken_off(case, monkeypatch, at)
    call(case, "finish")
    assert (case.seen(), read_serving(case.loaded).before) == (NEW, [])


def test_a_promotion_to_a_deleted_target_can_be_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    shutil.rmtree(tmp_path / "out")
    broken_off(case, monkeypatch, (TakeOver, "_bring", True))
    call(case, "abort")
    assert not (tmp_path / "out" / "_delta_log").exists()
    call(case, "promote")
    assert case.seen() == NEW


@needs("alerts")
def test_the_webhook_is_told_that_a_red_run_ended_with_its_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as hook:
        monkeypatch.setenv("HOOK", hook.url)
        case = two(tmp_path, supervision={"webhook": "${HOOK}"})
        old = read_generation(case.loaded.state, "g1")
        request(old, "history", is_requested=True)
        write_watch(old, Watch(requested_ms=require_requested(old).at_ms, alerted="dead"))
        promotion.promote(case.loaded)
        promotion.roll_back(case.loaded)
    told = [(each["health"], each["before"], each["reason"]) for each in hook.told]
    assert told == [("stopped", "dead", "g2 serves in place of g1, whose live run was dead.")]
