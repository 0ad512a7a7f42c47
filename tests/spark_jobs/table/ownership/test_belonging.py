"""Checkpoint, state and target that were taken apart are refused, with what was lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from hybrid_extensions.generations.files.take_over import prepare
from sources.errors import StateError
from sources.serving import OWNER, owner_properties
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.run_state.target_record import TargetRecord, read_target_record
from spark_jobs.table.delta_table import NO_MORE, open_table, paths_of, transactions_of
from spark_jobs.table.history_files import HistoryFiles
from spark_jobs.table.kept_deletes import DELETES, append_deletes
from spark_jobs.table.ownership.belonging import epoch_id, require_belonging
from spark_jobs.table.ownership.target_guard import confirm_start
from spark_jobs.table.ownership.target_records import announce_start, record_moved_rows
from tests.e2e.case import moment
from tests.spark_jobs.table.target_case import QUERY, SCHEMA, TargetCase


@pytest.fixture(params=["append", "merge"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> TargetCase:
    return TargetCase(tmp_path, request.param)


def refused(case: TargetCase) -> StateError:
    """The error of a launch; nothing is changed by it."""
    before = sorted(path for path in case.folder.rglob("*") if path.is_file())
    with pytest.raises(StateError) as caught:
        require_belonging(case.loaded, case.generation)
    with pytest.raises(StateError):
        case.start()
    assert sorted(path for path in case.folder.rglob("*") if path.is_file()) == before
    assert not caught.value.transient
    return caught.value


def test_runs_one_after_the_other_belong_together(case: TargetCase) -> None:
    require_belonging(case.loaded, case.generation)
    case.run()
    case.run(0, 1)
    case.run(2)
    require_belonging(case.loaded, case.generation)
    record = read_target_record(case.generation)
    assert record is not None
    assert (record.epoch, record.is_announced, record.written) == (3, False, 2)
    assert case.table.transaction_version(epoch_id(case.generation)) == 3


def test_a_crash_at_any_point_of_a_start_or_a_batch_is_accepted(case: TargetCase) -> None:
    announce_start(case.side)
    record = announce_start(case.side)
    assert record.epoch == 1
    case.start()
    case.plan_batch(0)
    case.start()
    case.write_batch(0)
    case.start()
    case.end_batch(0)
    announce_start(case.side)
    announce_start(case.side)
    require_belonging(case.loaded, case.generation)
    case.plan_batch(1)
    case.start()
    require_belonging(case.loaded, case.generation)


def test_a_driver_that_slept_through_another_start_ends_and_changes_nothing(
    case: TargetCase,
) -> None:
    case.run(0)
    slept = announce_start(case.side)
    older = case.start()
    newer = case.start()
    for late in (older.look, older.keep, lambda: confirm_start(case.side, slept)):
        with pytest.raises(
            StateError, match="Another driver of generation g1 has started"
        ) as found:
            late()
        assert found.value.transient
    newer.look()
    newer.keep()
    require_belonging(case.loaded, case.generation)
    assert case.table.transaction_version(epoch_id(case.generation)) == 3


def test_of_two_copies_of_a_state_that_start_at_once_only_one_does(case: TargetCase) -> None:
    """Each has a lock of its own; under the same epoch each would skip batches of the other."""
    case.run(0)
    copied = Folder(case.copy(case.generation.root, "copied"))
    other = replace(case.side, generation=Generation(copied, case.generation.info))
    first, second = announce_start(case.side), announce_start(other)
    guard = confirm_start(case.side, first)
    with pytest.raises(StateError, match="Another driver of generation g1 has started") as found:
        confirm_start(other, second)
    assert found.value.transient
    guard.look()


def test_a_deleted_target_is_refused_with_what_was_lost(case: TargetCase) -> None:
    case.run(0, 1, 2)
    shutil.rmtree(case.out)
    error = refused(case)
    assert f"The table {case.out} is missing. The rows of micro-batches 0 to 2 (" in error.message
    assert "hybrid generation new P" in error.hint
    # Only its log, or all that it holds but the data.
    case.folder.joinpath("out").mkdir()
    assert "is missing" in refused(case).message


def test_a_target_that_was_deleted_before_anything_was_committed_is_made_again(
    case: TargetCase,
) -> None:
    case.run()
    shutil.rmtree(case.out)
    require_belonging(case.loaded, case.generation)
    case.run(0)
    require_belonging(case.loaded, case.generation)
    assert case.table.transaction_version(epoch_id(case.generation)) == 2


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_deleted_checkpoint_is_refused_with_what_was_lost(
    case: TargetCase, *, is_recorded: bool
) -> None:
    guard = case.start()
    case.batches(0, 1)
    if is_recorded:
        guard.look()
        guard.keep()
    shutil.rmtree(case.checkpoint)
    error = refused(case)
    if is_recorded or not case.is_append:
        assert "the table" in error.message.lower()
        assert "micro-batches 0 to 1" in error.message
        assert "rows would be written twice, or new rows be skipped" in error.message
    # A new query has an id of its own.
    case.plan_batch(0)
    (case.checkpoint / "metadata").write_text('{"id":"another"}')
    refused(case)


def test_a_checkpoint_restored_from_a_backup_is_refused(case: TargetCase) -> None:
    case.run(0, 1)
    backup = case.copy(case.checkpoint, "backup")
    case.run(2, 3)
    case.put_back(backup, case.checkpoint)
    error = refused(case)
    assert (
        "the table holds micro-batches 2 to 3, the checkpoint knows none after 1" in error.message
    )


def test_a_state_folder_restored_from_a_backup_is_refused(case: TargetCase) -> None:
    case.run(0, 1)
    backup = case.copy(case.generation.root, "backup")
    case.run(2, 3)
    case.put_back(backup, case.generation.root)
    error = refused(case)
    assert "is older than the table" in error.message
    assert "its epoch is 2, but the state knows epoch 1" in error.message


def test_a_state_folder_restored_while_its_run_was_up_is_refused(case: TargetCase) -> None:
    guard = case.start()
    case.batches(0)
    guard.look()
    backup = case.copy(case.generation.root, "backup")
    case.batches(1, 2)
    case.put_back(backup, case.generation.root)
    assert "micro-batches 1 to 2, the checkpoint knows none after 0" in refused(case).message


def test_a_target_folder_restored_from_a_backup_is_refused(case: TargetCase) -> None:
    case.run(0, 1)
    backup = case.copy(Path(case.out), "backup")
    case.batches(2, 3)
    case.put_back(backup, Path(case.out))
    error = refused(case)
    assert "lacks micro-batches 2 to 3" in error.message
    assert "(committed at 2" in error.message
    case.put_back(backup, Path(case.out))
    # Whoever grows it to the same version again does not make it the same table.
    for _ in range(3):
        case.foreign_rows()
    assert "lacks micro-batches 2 to 3" in refused(case).message


def test_an_older_target_is_told_by_its_epoch_and_by_its_version(case: TargetCase) -> None:
    case.run()
    backup = case.copy(Path(case.out), "backup")
    case.run()
    case.put_back(backup, Path(case.out))
    error = refused(case)
    assert "its epoch is 1, but the state has seen epoch 2" in error.message


def test_another_table_in_its_place_is_refused(case: TargetCase) -> None:
    case.run(0)
    shutil.rmtree(case.out)
    case.folder.joinpath("made").mkdir()
    twin = TargetCase(case.folder / "made", "append" if case.is_append else "merge")
    twin.run(0)
    shutil.copytree(twin.out, case.out)
    assert "its property `hybrid.generation` is" in refused(case).message
    shutil.rmtree(case.out)
    # The same owner, made again by hand.
    DeltaTable.create(
        case.out,
        SCHEMA,
        configuration=dict(owner_properties(case.generation)),
        raise_if_key_not_exists=False,
    )
    assert "its Delta id is" in refused(case).message


DOCUMENTS = [
    "plan.json",
    "positions/history-end.json",
    "run/requested.json",
    "truncated.json",
    "target.json",
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_deleted_after_a_commit_is_refused_by_name(case: TargetCase, name: str) -> None:
    for each in DOCUMENTS[:-1]:
        case.generation.path(each).parent.mkdir(exist_ok=True)
        case.generation.path(each).write_text("{}")
    case.run(0)
    case.generation.path(name).unlink()
    error = refused(case)
    assert f"The state lacks {case.generation.path(name)}, though" in error.message
    assert error.fields["file"] == str(case.generation.path(name))


def keep_deletes(case: TargetCase, *ids: int) -> None:
    deletes = case.generation.folder(DELETES)
    for each in ids:
        append_deletes(deletes, pa.table({"id": pa.array([each], pa.int64())}))


@pytest.mark.parametrize("case", ["merge"], indirect=True)
@pytest.mark.parametrize("restored", ["older", "none"])
def test_kept_deletes_that_were_lost_or_are_older_are_refused(
    case: TargetCase, restored: str
) -> None:
    """Without them an older change that comes late would bring a deleted row back."""
    deletes = case.generation.folder(DELETES).root
    keep_deletes(case, 1)
    backup = case.copy(deletes, "backup")
    keep_deletes(case, 2, 3)
    case.run(0)
    newest = case.copy(deletes, "newest")
    shutil.rmtree(deletes)
    if restored == "older":
        case.put_back(backup, deletes)
    assert "deletes/_delta_log/00000000000000000002.json, though" in refused(case).message
    case.put_back(newest, deletes)
    case.run(1)


@pytest.mark.parametrize("case", ["merge"], indirect=True)
def test_kept_deletes_whose_older_commits_delta_has_removed_are_no_loss(case: TargetCase) -> None:
    keep_deletes(case, 1)
    case.run(0)
    keep_deletes(case, 2)
    table = DeltaTable(case.generation.folder(DELETES).url)
    table.create_checkpoint()
    case.generation.path(f"{DELETES}/_delta_log/{0:020}.json").unlink()
    require_belonging(case.loaded, case.generation)


def test_a_plan_deleted_before_anything_was_committed_is_no_obstacle(case: TargetCase) -> None:
    case.generation.path("plan.json").write_text("{}")
    case.run()
    case.generation.path("plan.json").unlink()
    require_belonging(case.loaded, case.generation)


@pytest.mark.parametrize("name", ["current.json", "generation.json"])
def test_a_lost_name_of_the_generation_never_begins_another_one(
    case: TargetCase, name: str
) -> None:
    case.run(0)
    home = case.generation.root.parent
    (home / name if name == "current.json" else case.generation.path(name)).unlink()
    with pytest.raises(StateError, match=f"{name} .*is missing"):
        case.loaded.open_generation(create=True)


def test_commits_deleted_in_the_checkpoint_are_refused(case: TargetCase) -> None:
    case.run(0, 1, 2)
    shutil.rmtree(case.checkpoint / "commits")
    assert "micro-batch 2 was begun, but its folder `commits` has none." in refused(case).message


def restore(case: TargetCase, version: int) -> None:
    DeltaTable(case.out).restore(version, protocol_downgrade_allowed=True)


def test_a_restore_of_the_target_is_refused_and_restoring_forward_mends_it(
    case: TargetCase,
) -> None:
    case.run(0, 1, 2)
    newest = case.table.version()
    restore(case, newest - 1)
    error = refused(case)
    assert f"RESTORE to version {newest - 1}" in error.message
    assert f"TO VERSION AS OF {newest} with Spark" in error.hint
    assert "hybrid accept" not in error.hint
    restore(case, newest)
    require_belonging(case.loaded, case.generation)
    case.run(3)


def test_a_restore_that_batches_followed_leaves_a_new_generation_only(case: TargetCase) -> None:
    case.run(0, 1, 2)
    restore(case, case.table.version() - 1)
    case.batches(3)
    error = refused(case)
    assert "TO VERSION" not in error.hint
    assert "hybrid generation new P" in error.hint
    restore(case, case.table.version() - 2)
    assert "TO VERSION" not in refused(case).hint


def delete(case: TargetCase) -> None:
    case.table.delete("id = 0")


def update(case: TargetCase) -> None:
    case.table.update(updates={"id": "id + 1000"})


def overwrite(case: TargetCase) -> None:
    write_deltalake(case.out, case.table.to_pyarrow_table(), mode="overwrite")


def with_a_transaction(case: TargetCase) -> None:
    done = CommitProperties(app_transactions=[Transaction("somebody", 1)])
    rows = case.table.to_pyarrow_table()
    write_deltalake(case.out, rows, mode="append", commit_properties=done)


@pytest.mark.parametrize(
    "change", [TargetCase.foreign_rows, delete, update, overwrite, with_a_transaction]
)
def test_changes_by_others_are_refused_by_version_time_and_operation(
    case: TargetCase, change: Callable[[TargetCase], None]
) -> None:
    case.run(0, 1)
    last = case.table.version()
    change(case)
    error = refused(case)
    (commit,) = case.table.history(1)
    assert f"  version {last + 1}, 2" in error.message
    assert f": {commit['operation']}" in error.message
    assert "hybrid accept P --by NAME" in error.hint
    assert f"TO VERSION AS OF {last}" in error.hint
    restore(case, last)
    require_belonging(case.loaded, case.generation)


def compact(case: TargetCase) -> None:
    case.table.optimize.compact()


def vacuum(case: TargetCase) -> None:
    case.table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def set_properties(case: TargetCase) -> None:
    case.table.alter.set_table_properties({"delta.appendOnly": "false"})


def checkpoint_log(case: TargetCase) -> None:
    case.table.create_checkpoint()
    case.table.cleanup_metadata()


@pytest.mark.parametrize("change", [compact, vacuum, set_properties, checkpoint_log])
def test_ordinary_maintenance_by_others_is_allowed(
    case: TargetCase, change: Callable[[TargetCase], None]
) -> None:
    case.run(0, 1)
    change(case)
    require_belonging(case.loaded, case.generation)
    case.run(2)
    change(case)
    require_belonging(case.loaded, case.generation)


def test_a_backfill_of_a_range_is_the_pipelines_own(case: TargetCase) -> None:
    from hybrid_extensions.ranges.table.event_range import Range  # noqa: PLC0415
    from hybrid_extensions.ranges.table.replace_range import (  # noqa: PLC0415
        Replaced,
        Replacement,
    )

    guard = case.start()
    case.batches(0, 1)
    replacement = Replacement(
        table=Folder(case.out),
        side=None,
        where=Range("at", moment(0), moment(50)),
        history=HistoryFiles(set(paths_of(open_table(Folder(case.out)))), set()),
        key=["id"],
        transaction=f"{case.generation.info.transaction_id}-range-abc",
        scratch=Folder(case.folder / "scratch"),
    )
    assert replacement.run(lambda _: None) == Replaced(removed=1, written=0, kept_live=0)
    guard.look()
    require_belonging(case.loaded, case.generation)
    case.batches(2)
    guard.look()


def test_a_promotion_and_a_rollback_carry_epoch_and_batches_along(case: TargetCase) -> None:
    """The steps of a promotion, with another generation's table in between."""
    case.run(0, 1)
    case.run(2)
    served, own = case.table.version(), case.generation.info.transaction_id
    writer = QUERY if case.is_append else own
    ids = [writer, epoch_id(case.generation)]
    target, other = Folder(case.out), Folder(case.folder / "out.g2")
    known = transactions_of(target, ids)
    write_deltalake(other.url, case.table.to_pyarrow_table())
    prepare(target, other, None).commit(dict.fromkeys(ids, NO_MORE), {OWNER: "g2"})
    assert "its property `hybrid.generation` is g2" in refused(case).message
    assert transactions_of(target, ids, served) == known
    before = case.table.version()
    prepare(target, target, served).commit(known, owner_properties(case.generation))
    record_moved_rows(case.loaded, case.generation, before)
    require_belonging(case.loaded, case.generation)
    case.run(3)
    case.foreign_rows()
    assert "changed by something other" in refused(case).message


def test_commits_that_delta_removed_from_the_log_are_not_trusted(case: TargetCase) -> None:
    case.run(0)
    for _ in range(2):
        set_properties(case)
    case.table.create_checkpoint()
    logs = sorted(Path(case.out, "_delta_log").glob("0*.json"))
    for path in logs[:-1]:
        path.unlink()
    error = refused(case)
    assert "time unknown: unknown, since Delta has removed the commit" in error.message
    assert "hybrid accept P --by NAME" in error.hint


def test_a_running_query_sees_what_others_do(case: TargetCase) -> None:
    guard = case.start()
    case.batches(0)
    guard.look()
    compact(case)
    case.batches(1)
    guard.look()
    case.foreign_rows()
    with pytest.raises(StateError, match="changed by something other than this pipeline"):
        guard.look()
    with pytest.raises(StateError):
        guard.before(2)


def test_a_running_query_sees_a_restore(case: TargetCase) -> None:
    guard = case.start()
    case.batches(0, 1)
    guard.look()
    restore(case, case.table.version() - 1)
    with pytest.raises(StateError, match="RESTORE to version"):
        guard.look()


@pytest.mark.parametrize("what", ["target", "checkpoint"])
def test_a_running_query_sees_what_is_deleted(case: TargetCase, what: str) -> None:
    guard = case.start()
    case.batches(0, 1)
    guard.look()
    shutil.rmtree(case.out if what == "target" else case.checkpoint)
    with pytest.raises(StateError, match="is missing") as refused:
        guard.look()
    assert "Nothing was" not in refused.value.message, "it was started, and has written"


def test_a_micro_batch_is_written_only_after_the_one_before_it(tmp_path: Path) -> None:
    case = TargetCase(tmp_path, "merge")
    guard = case.start()
    guard.before(0)
    with pytest.raises(StateError, match="lacks micro-batch 0"):
        guard.before(1)
    case.batches(0, 1)
    guard.before(1)
    guard.before(2)
    with pytest.raises(StateError, match="lacks micro-batch 2"):
        guard.before(3)
    with pytest.raises(StateError, match="the checkpoint knows none after 0"):
        guard.before(0)


def test_a_change_between_the_announcement_and_the_start_is_refused(case: TargetCase) -> None:
    case.run(0)
    record = announce_start(case.side)
    case.foreign_rows()
    with pytest.raises(StateError, match="changed by something other"):
        confirm_start(case.side, record)
    refused(case)


def test_the_record_says_what_is_known(case: TargetCase) -> None:
    case.run(0)
    record = json.loads(case.generation.path(TargetRecord.NAME).read_text())
    assert record["verified"] == case.table.version()
    assert record["documents"] == ["generation.json"]


def test_a_data_file_that_was_deleted_is_refused_at_the_next_start(case: TargetCase) -> None:
    case.run(0, 1)
    name = paths_of(open_table(Folder(case.out)))[0]
    content = Path(case.out, name).read_bytes()
    Path(case.out, name).unlink()
    with pytest.raises(StateError, match="are missing, although its log lists them") as caught:
        case.run(2)
    assert name in caught.value.message
    assert "generation new" in caught.value.hint
    Path(case.out, name).write_bytes(content)
    case.run(2)
