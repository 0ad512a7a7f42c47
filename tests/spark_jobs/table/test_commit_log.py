"""Which changes of others are in effect in a table, after any number of RESTOREs to and fro."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.table.commit_log import RESTORE, Commit, parse_commit
from spark_jobs.table.ownership.foreign_changes import foreign_changes

VERIFIED = 3
OWN = {"mine": 1}
STEPS = st.lists(
    st.one_of(
        st.sampled_from(["own", "append", "delete", "optimize"]),
        st.integers(VERIFIED - 2, VERIFIED + 12),  # RESTORE to this version, if there is one
    ),
    max_size=12,
)


def is_own(commit: Commit) -> bool:
    return "mine" in commit.transactions


@pytest.mark.parametrize("operation", ["DROP COLUMNS", "RENAME COLUMN", "REPLACE COLUMNS"])
def test_a_column_that_was_dropped_or_renamed_is_a_change_of_rows_until_it_is_undone(
    operation: str,
) -> None:
    lines = [{"commitInfo": {"operation": operation}}, {"metaData": {}}]
    commit = parse_commit(3, "\n".join(map(json.dumps, lines)).encode())
    others = foreign_changes([commit], 2, lambda _: False)
    assert [each.operation for each in others.commits] == [operation]
    # Nothing was written since, so that it brings no file back.
    undone = Commit(4, operation=RESTORE, restored_to=2)
    assert not foreign_changes([commit, undone], 2, lambda _: False).commits


def test_a_restore_that_brings_an_undone_change_back_is_seen() -> None:
    """Rows are taken away, put back, compacted, and taken away again."""
    commits = [
        Commit(4, transactions=OWN, changes_rows=True),
        Commit(5, operation=RESTORE, restored_to=3, changes_rows=True),
        Commit(6, operation=RESTORE, restored_to=4, changes_rows=True),
        Commit(7, operation="OPTIMIZE"),
        Commit(8, operation=RESTORE, restored_to=5, changes_rows=True),
    ]
    assert foreign_changes(commits[:4], VERIFIED, is_own).commits == ()
    found = foreign_changes(commits, VERIFIED, is_own)
    assert [each.version for each in found.commits] == [5]
    assert (found.last_good, found.own_after) == (4, None)


@given(STEPS)
def test_changes_are_in_effect_exactly_if_the_table_holds_other_rows_than_the_pipelines(
    steps: list[str | int],
) -> None:
    """By a table whose rows are numbers: the pipeline's positive, those of others negative."""
    versions = {0: {1}, 1: {1, 2}, 2: {1, 2}, VERIFIED: {1, 2, 3}}
    written, commits = {1, 2, 3}, []
    for version, step in enumerate(steps, VERIFIED + 1):
        rows = set(versions[version - 1])
        made = Commit(version, operation=str(step), changes_rows=True)
        if step == "own":
            rows.add(version)
            written.add(version)
            made = Commit(version, transactions=OWN, changes_rows=True)
        elif step == "append":
            rows.add(-version)
        elif step == "delete":
            rows -= {max(rows, default=0)}
        elif step == "optimize":
            made = Commit(version, operation="OPTIMIZE")
        elif isinstance(step, int) and step in versions:
            rows = set(versions[step])
            # As Delta says it: whether files were added or removed.
            made = Commit(
                version,
                operation=RESTORE,
                restored_to=step,
                changes_rows=rows != versions[version - 1],
            )
        else:
            made = Commit(version, operation="OPTIMIZE")
        versions[version] = rows
        commits.append(made)
    found = foreign_changes(commits, VERIFIED, is_own)
    assert bool(found.commits) == (versions[VERIFIED + len(steps)] != written)
    if found.commits and found.own_after is None:
        # Restoring it, as the refusal says, makes the table right.
        assert versions[found.last_good] == written
