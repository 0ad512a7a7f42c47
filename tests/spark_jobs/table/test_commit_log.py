"""Which changes of others are in effect in a table, after any number of RESTOREs to and fro."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.table.commit_log import RESTORE, Commit
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
