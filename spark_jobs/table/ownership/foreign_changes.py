"""Foreign changes: commits by others that changed rows; which RESTORE undoes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from spark_jobs.table.commit_log import Commit


@dataclass(frozen=True)
class ForeignChanges:
    """Changes of a table's rows that others than the pipeline made, and that are still in effect.

    Attributes:
        commits: Their commits, the oldest first; empty if there are none.
        last_good: Newest version without any of them: restoring it undoes them all.
        own_after: Newest of the pipeline's own micro-batch commits after ``last_good``; None if
            there is none. Restoring would then lose rows of the pipeline.
    """

    commits: tuple[Commit, ...]
    last_good: int
    own_after: int | None = None


def foreign_changes(
    commits: Iterable[Commit], verified: int, is_own: Callable[[Commit], bool]
) -> ForeignChanges:
    """Find the commits by others that change rows, and that no later RESTORE has undone.

    A RESTORE to a version at or after ``verified`` leaves those changes in effect that were so at
    that version, if the pipeline itself has written nothing in between. Any other RESTORE takes
    rows of the pipeline away and is a foreign change itself.

    Args:
        commits: The commits after ``verified``, in order.
        verified: Newest version that is known to be good.
        is_own: Whether a commit was made by the pipeline.
    """
    foreign: tuple[Commit, ...] = ()
    # In effect at each version: a RESTORE can bring back what an earlier one had undone.
    at: dict[int, tuple[Commit, ...]] = {verified: foreign}
    own: list[int] = []
    for commit in commits:
        to = commit.restored_to
        if commit.changes_rows and is_own(commit):
            own.append(commit.version)
        elif to in at and not any(number > to for number in own):
            foreign = at[to]
        elif commit.changes_rows:
            foreign = (*foreign, commit)
        at[commit.version] = foreign
    last_good = foreign[0].version - 1 if foreign else verified
    after = [number for number in own if number > last_good]
    return ForeignChanges(foreign, last_good, max(after, default=None))
