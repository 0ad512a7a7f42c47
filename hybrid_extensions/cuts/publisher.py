"""Publication of a cut: one attempt at a time, given up after 300 s, and one commit.

:func:`publish` waits until the attempt ends; :func:`advance` does what needs no waiting, and
returns what a later call continues from.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hybrid_extensions.cuts.attempt import Attempt, Database, GivenUp, UnderWay, database_of
from hybrid_extensions.cuts.barrier import read_barrier
from hybrid_extensions.cuts.members import CutGroup, CutTable, require_following
from hybrid_extensions.cuts.table import Cut, append_cut, last_number
from sources.common.times import now_ms
from sources.planning.plan import log_server

LIMIT_S = 300.0
"""Seconds after which an attempt is given up. A connector confirms once a minute by default
(``offset.flush.interval.ms`` of Kafka Connect)."""
_POLL_S = 0.5
_PROMOTED = "Another generation of a table serves now."


def publish(
    group: CutGroup, limit_s: float = LIMIT_S, database: Database | None = None
) -> Cut | GivenUp:
    """Publish one cut, and wait for it; return why not if it fails or takes too long.

    While it waits, a barrier keeps each table's driver from merging changes behind the cut; it is
    taken away in any case.

    Args:
        group: The tables.
        limit_s: Seconds after which the attempt is given up.
        database: Asks the database for the mark of the cut; the captured one if None.

    Raises:
        StateError: A table still reads its snapshot, or a state can't be read or written.
        InputError: The database or the broker refuses; or the table of the cuts can't be used.
        UnavailableError: The database or the broker does not answer.
        RunError: The replication slot, or the position of Debezium's connector in the log, is
            missing or lost.
    """
    tables = group.tables()
    require_following(tables)
    number = last_number(group.folder) + 1
    attempt = Attempt(tables, database or _database_of(group, tables), limit_s)
    try:
        attempt.open()
        while (found := attempt.look()) is None:
            time.sleep(_POLL_S)
    finally:
        attempt.close()
    if isinstance(found, GivenUp):
        return found
    if _generations(tables) != _generations(group.tables()):
        return GivenUp(_PROMOTED)
    return _append(group, Cut(number, attempt.mark.text, attempt.mark.at, found))


def advance(
    group: CutGroup,
    attempt: UnderWay | None,
    limit_s: float = LIMIT_S,
    database: Database | None = None,
) -> Cut | GivenUp | UnderWay:
    """Begin an attempt to publish a cut, or continue one, without waiting; for a sensor.

    Args:
        group: The tables.
        attempt: The attempt that the last call returned; None begins another one.
        limit_s: Seconds after which an attempt that begins is given up.
        database: The requests to the database; those of the captured one if None.

    Returns:
        The published cut; why there is none; or the attempt, with which to call again.

    Raises:
        HybridError: As :func:`publish`. An attempt that was continued can be continued again.
    """
    tables = group.tables()
    asked = database or _database_of(group, tables)
    if attempt is None:
        require_following(tables)
        if _is_barred(tables):
            return GivenUp("Another process publishes cuts of these tables.")
        number = last_number(group.folder) + 1
        begun = Attempt(tables, asked, limit_s)
        try:
            begun.open()
            found = begun.look()
        except BaseException:
            # No process will continue this attempt.
            begun.close()
            raise
    else:
        number = attempt.number
        begun = Attempt.resume(tables, asked, attempt)
        if _generations(tables) != attempt.generations:
            begun.close()
            return GivenUp(_PROMOTED)
        found = begun.look()
    if found is None:
        return UnderWay(
            number=number,
            generations=_generations(tables),
            barrier=begun.barrier,
            mark=begun.mark,
            ends=begun.ends,
        )
    begun.close()
    if isinstance(found, GivenUp):
        return found
    return _append(group, Cut(number, begun.mark.text, begun.mark.at, found))


def _is_barred(tables: Sequence[CutTable]) -> bool:
    """Return whether an attempt of another process is under way."""
    barriers = [read_barrier(each.generation) for each in tables]
    return any(each is not None and each.is_open and each.until_ms > now_ms() for each in barriers)


def _generations(tables: Sequence[CutTable]) -> dict[str, str]:
    return {each.name: each.context.generation.name for each in tables}


def _append(group: CutGroup, cut: Cut) -> Cut | GivenUp:
    if not append_cut(group.folder, cut):
        return GivenUp(f"Another process has published cut {cut.number}.")
    return cut


def _database_of(group: CutGroup, tables: Sequence[CutTable]) -> Database:
    return database_of(group.database, log_server(tables[0].context.generation))
