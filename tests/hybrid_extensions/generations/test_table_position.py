"""Position of a version of a table, as its commits say it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from hybrid_extensions.generations.table_position import find_position
from sources.errors import StateError
from sources.state.generation import GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.table.commit_position import TOPIC, CommitPosition

OWNER = "events-g1-17"
GENERATION = GenerationInfo(generation="g1", transaction_id=OWNER, created_ms=0, contract={})


class Table:
    """A table of a generation that merges."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "out")
        columns = pa.schema([("id", pa.int64())])
        DeltaTable.create(
            self.path,
            columns,
            configuration={"hybrid.generation": OWNER},
            raise_if_key_not_exists=False,
        )

    def commit(self, said: str | None = None, **transactions: int) -> None:
        """One row more; in names of transactions an underscore stands for a hyphen."""
        write_deltalake(
            self.path,
            pa.table({"id": [1]}),
            mode="append",
            commit_properties=CommitProperties(
                app_transactions=[
                    Transaction(name.replace("_", "-"), version)
                    for name, version in transactions.items()
                ],
                custom_metadata=None if said is None else {"userMetadata": said},
            ),
        )

    def batch(self, number: int, **of: int) -> None:
        said = position(number).model_dump() | {"batch": number}
        self.commit(json.dumps(said), **(of or {"events_g1_17": number}))

    def found(self, version: int | None = None) -> int:
        return find_position(Folder(self.path), version).batch


def position(number: int) -> CommitPosition:
    return CommitPosition(
        generation=GENERATION.generation,
        writer=OWNER,
        batch=number,
        sources={"live": {TOPIC: {"t": {0: number}}}},
        topics={"t": "c/t"},
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_the_newest_micro_batch_counts_of_a_version(table: Table) -> None:
    for number in range(3):
        table.batch(number)
    assert (table.found(), table.found(2)) == (2, 1)
    with pytest.raises(StateError, match="no commit since then says one"):
        table.found(0)


def test_commits_that_change_no_row_and_own_ones_beside_are_passed_over(table: Table) -> None:
    table.batch(0)
    table.batch(1)
    opened = DeltaTable(table.path)
    opened.optimize.compact()
    opened.alter.set_table_properties({"delta.checkpointInterval": "20"})
    opened.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.commit(None, events_g1_17_repair_5=1)
    # Only a part of the micro-batch is in such a commit.
    table.batch(2, events_g1_17_cut=7)
    assert table.found() == 1


def test_changes_of_others_and_micro_batches_that_say_nothing_are_named(table: Table) -> None:
    table.batch(0)
    table.commit("by the owner of a job")
    with pytest.raises(StateError, match="version 2: its WRITE changed rows") as error:
        table.found()
    assert "Declare the position instead" in error.value.hint
    table.batch(1)
    assert table.found() == 1
    table.commit(None, events_g1_17=2)
    with pytest.raises(StateError, match="version 4: its WRITE changed rows"):
        table.found()
    table.commit(json.dumps({"hybrid": 2}), events_g1_17=3)
    with pytest.raises(StateError, match="in form 2"):
        table.found()


def test_after_a_restore_the_restored_version_counts(table: Table) -> None:
    for number in range(3):
        table.batch(number)
    DeltaTable(table.path).restore(2)
    assert table.found() == 1
    table.batch(2)
    assert table.found() == 2


def test_a_commit_that_delta_has_removed_is_named(table: Table) -> None:
    table.batch(0)
    table.batch(1)
    opened = DeltaTable(table.path)
    opened.alter.set_table_properties({"delta.checkpointInterval": "20"})
    opened.create_checkpoint()
    (Path(table.path) / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(StateError, match="version 2: Delta has removed its commit"):
        table.found()
