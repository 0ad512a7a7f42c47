"""Run of a repair next to the live run: compare the table with a snapshot, write what differs.

The order of steps is what makes it right:

1. The end of the log is read, and transactions in flight are waited for.
2. A snapshot is taken after that, and its rows are read.
3. The live run commits all that the log and the topic hold now.
4. A version of the target is opened, then its deletes are read, then the end of the log again.
5. Rows that differ, and are not newer than 1, are written as of 1, so that all that came later
   wins, whenever it arrives. Rows that became newer since 4 are left out.

A repair that is interrupted before its one commit has changed no row.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

from hybrid_extensions.cdc.compared.kept_compare import keep_repaired
from hybrid_extensions.generations.overtaken_audit import overtake_audit
from hybrid_extensions.generations.switch.lock import hold_switch_lock_in_turn
from hybrid_extensions.generations.switch.merge_turn import between_merges
from hybrid_extensions.repair.comparison import (
    Compared,
    Limits,
    compare_sides,
    require_no_truncate,
)
from hybrid_extensions.repair.differences import Differences
from hybrid_extensions.repair.lifted_doubt import doubt_before, lift_doubt
from hybrid_extensions.repair.repairable_table import RepairedTable, require_repairable
from hybrid_extensions.repair.result import RepairResult
from hybrid_extensions.repair.rewrite import Rewritten, Touched, files_to_rewrite, rewrite
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import leaving
from sources.kept_definitions import in_service
from sources.serving import require_in_service
from sources.state.action_log import recorded
from spark_jobs.run_state.repairs import Repair, read_repairs

_WAY_OUT = "no row changes before its one commit, and the repair can be repeated"
_SCRATCH = "repair"


@leaving("Nothing was changed.")
def look(
    loaded: LoadedPipeline,
    within: timedelta,
    where: str | None = None,
    say: Callable[[str], None] = lambda _: None,
    keys: str | None = None,
) -> RepairResult:
    """Return what :func:`repair` would write; nothing is written.

    It takes as long, and raises as :func:`repair` does.

    Args:
        loaded: The pipeline.
        within: How long to wait for transactions in flight, and for the live run.
        where: DuckDB's SQL condition on the target's columns: only such rows; None for all.
        say: Called with a line of text for each step.
        keys: Keys of the only rows to compare, as :func:`repair` takes them; None for all.
    """
    table = _serving(loaded)
    with compare_sides(table, within, Limits(where, keys), say) as compared:
        touched = files_to_rewrite(compared.connection, table, compared.opened)
        return _result(table, compared.found, touched)


@leaving("A repair writes all of its rows in one commit, or none.")
def repair(
    loaded: LoadedPipeline,
    within: timedelta,
    where: str | None = None,
    say: Callable[[str], None] = lambda _: None,
    by: str | None = None,
    keys: str | None = None,
) -> RepairResult:
    """Write the rows of a captured table that differ from the database, while its run continues.

    Until it is done no promotion or rollback begins, and backfills and upkeep of the table wait. No
    row changes before its one commit; it is entered in the log of actions. Only a repair without
    limits also takes back the doubt that unreadable changes left
    (:mod:`~hybrid_extensions.repair.lifted_doubt`), and the differences that comparisons kept.

    Args:
        loaded: The pipeline.
        within: How long to wait for transactions in flight, and for the live run.
        where: DuckDB's SQL condition on the target's columns: only such rows; None for all.
        say: Called with a line of text for each step.
        by: Who asked for it; None if unknown.
        keys: Keys to which the repair is limited, as
            :func:`~hybrid_extensions.repair.asked_keys.read_asked` reads them; all by default.

    Raises:
        StateError: The table can't be repaired in place; transactions in flight have not ended in
            time; a TRUNCATE came in between; or another writer has changed the same files.
        RunError: The live run ended, or has not caught up in time.
        InputError: One of the two tables can't be read, or the condition is not valid.
        UnavailableError: The database, the broker or the store does not answer.
    """
    with hold_switch_lock_in_turn(loaded, "repair", say, _WAY_OUT) as held:
        table = _serving(loaded)
        turn = between_merges(table.context, "repair")
        with turn():
            # Refused now, not after both tables were read.
            held.note("1 of 2: comparing the table with the database")
        limits = Limits(where, keys)
        doubt = doubt_before(table, limits)
        begun_ms = now_ms()
        with compare_sides(table, within, limits, say) as compared:
            touched = files_to_rewrite(compared.connection, table, compared.opened)
            result = _result(table, compared.found, touched)
            held.note("2 of 2: writing the rows that differ")
            generation = table.context.generation
            of = {"rows": result.text}
            with recorded(loaded.state, "repair", by, generation.name, of) as after, turn():
                done = _write(table, compared)
                lift_doubt(table, doubt, compared.found, done.changed)
                if limits == Limits() and not (compared.found.impossible or compared.found.partial):
                    keep_repaired(generation, begun_ms)
                if done.version is not None:
                    overtake_audit(generation, "a repair")
                after["version"] = "none" if done.version is None else str(done.version)
        made = _result(table, compared.found, touched, done)
        say(made.text)
        return made


def _write(table: RepairedTable, compared: Compared) -> Rewritten:
    """Write what differs, and record it before and after; nothing is merged meanwhile."""
    require_no_truncate(table, compared.version)
    if not compared.found.to_repair:
        return Rewritten(None, 0)
    generation, found = table.context.generation, compared.found
    plan = Repair(
        id=uuid.uuid4().hex[:12],
        begun_ms=now_ms(),
        version=compared.version,
        log_end=compared.log_end,
        missing=found.missing,
        different=found.different,
        extra=found.extra,
    )
    before = read_repairs(generation)
    listed = before.model_copy(update={"repairs": [*before.repairs, plan]})
    generation.replace(listed.NAME, listed)
    scratch = generation.folder(f"{_SCRATCH}/{plan.id}")
    transaction = f"{generation.info.transaction_id}-repair-{plan.id}"
    try:
        done = rewrite(compared.connection, table, compared.version, transaction, scratch)
    finally:
        # Also what repairs have left that were killed.
        generation.folder(_SCRATCH).delete_all()
    written = plan.model_copy(update={"table_version": done.version})
    listed = before.model_copy(update={"repairs": [*before.repairs, written]})
    generation.replace(listed.NAME, listed)
    return done


def _serving(loaded: LoadedPipeline) -> RepairedTable:
    serving = in_service(loaded)[-1]
    table = require_repairable(serving)
    require_in_service(table.context.loaded, table.context.generation)
    return table


def _result(
    table: RepairedTable, found: Differences, touched: Touched, done: Rewritten | None = None
) -> RepairResult:
    return RepairResult(
        table=table.captured.name,
        generation=table.context.generation.name,
        found=found,
        files=touched.files,
        bytes=touched.bytes,
        is_applied=done is not None,
        version=None if done is None else done.version,
        changed=0 if done is None else done.changed,
    )
