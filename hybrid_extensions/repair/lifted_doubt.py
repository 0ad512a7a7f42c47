"""When a repair lifts the doubt that unreadable changes left: all rows compared, all put right."""

from __future__ import annotations

from hybrid_extensions.repair.comparison import Limits
from hybrid_extensions.repair.differences import Differences
from hybrid_extensions.repair.repairable_table import RepairedTable
from spark_jobs.run_state.repairs import Righted, read_repairs
from spark_jobs.run_state.wrong_rows import kept_wrong_rows


def doubt_before(table: RepairedTable, limits: Limits) -> dict[str, Righted]:
    """Return the unreadable changes so far, by source: a snapshot taken from now on contains them.

    Call it before the snapshot: later ones stay in doubt. Empty if the repair is limited, as it
    does not compare the rows that such a change may have been of.

    Args:
        table: The table.
        limits: Rows that the repair is limited to.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    found = {}
    for topic in (
        table.context.pipeline.mirrors_that_leave_out_changes if limits == Limits() else ()
    ):
        kept = kept_wrong_rows(table.context.generation, topic.name)
        found[topic.name] = Righted(batch=kept.last_batch, unknown=kept.unknown)
    return found


def lift_doubt(
    table: RepairedTable, doubt: dict[str, Righted], found: Differences, changed: int
) -> None:
    """Record that the table no longer lacks those changes, if the repair has put all rows right.

    It has not if a row has an impossible position or an older long value, or changed meanwhile: all
    of the doubt then stays, for the next repair. A row with a newer change is right by that change,
    if it has all values.

    Args:
        table: The table.
        doubt: What :func:`doubt_before` returned; nothing is recorded if it is empty.
        found: What differed.
        changed: Number of keys that were not written, as they have changed since the comparison.

    Raises:
        StateError: The state is damaged or can't be written.
        UnavailableError: The state's store does not answer.
    """
    if doubt and not (found.impossible or found.partial or changed):
        generation = table.context.generation
        before = read_repairs(generation)
        generation.replace(before.NAME, before.model_copy(update={"righted": doubt}))
