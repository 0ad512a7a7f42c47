"""Look at a PostgreSQL table for alterations that no change reports; 5 s to connect, or noted."""

from __future__ import annotations

from hybrid_extensions.cdc.databases.altered_table import (
    AlteredTable,
    Names,
    NarrowedColumn,
    TableWatch,
    alteration_by_refusal,
    alteration_of,
)
from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.cdc.databases.connector_lists import Capture, find_capture
from hybrid_extensions.libpq.connections import connect
from hybrid_extensions.postgres.capture_checks import require_capturable
from hybrid_extensions.postgres.table_checks import check_publication
from hybrid_extensions.postgres.watch.alteration import find_alteration, is_narrowed
from hybrid_extensions.postgres.watch.catalog_definition import RowsOf, read_definition
from hybrid_extensions.postgres.watch.publication import read_publication
from sources.common.optional import needs_extra
from sources.common.table_definition import PostgresDefinition
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError

with needs_extra("postgres", "A `snapshot` of PostgreSQL"):
    import psycopg

_TIMEOUT_S = 5
_ANSWER_S = 10.0
# One moment for all questions.
_SETTINGS = (
    f"-c statement_timeout={_TIMEOUT_S * 1000} -c default_transaction_read_only=on "
    "-c default_transaction_isolation=repeatable\\ read"
)


def look_at_table(
    table: CapturedTable, topic: KafkaSource, names: Names, before: TableWatch
) -> TableWatch:
    """Inspect a table's catalog entry and its publication for alterations; write nothing.

    To connect may take 5 s, and each answer 10 s. The database's errors raise nothing: ``unknown``
    of the result says why nothing is known.

    Args:
        table: The table.
        topic: The topic of its changes.
        names: Names of its captured columns.
        before: Result of the last look, or of its snapshot, with the time of this look.

    Returns:
        What this look saw; ``altered`` if something was done that no change reports.
    """
    capture = find_capture(table, topic, before.prefix)
    if capture.is_told:
        before = before.model_copy(update={"prefix": capture.prefix})
    try:
        with connect(
            table.options.dsn,
            answer_s=_ANSWER_S,
            connect_timeout=_TIMEOUT_S,
            application_name="hybrid table",
            options=_SETTINGS,
        ) as connection:
            now = read_definition(connection, table.name)
            known = before.definition
            found = None
            if isinstance(known, PostgresDefinition):
                both = names.in_both(known.columns, {} if now is None else now.columns)
                before, both = _without_narrowed(before, known, now, names, both)
                what = find_alteration(known, now, dict(both.values()), RowsOf(connection))
                if what is not None:
                    is_redefined = now is not None and (
                        now.key != known.key or now.columns != known.columns
                    )
                    found = alteration_of(
                        table.name, what, before.looked_ms, is_redefined=is_redefined
                    )
            if found is None and capture.problem is not None:
                found = alteration_of(table.name, capture.problem, before.looked_ms)
            if found is None and now is not None:
                found = _no_longer_captured(connection, table, capture, before.looked_ms)
    except psycopg.Error as error:
        return before.model_copy(update={"unknown": " ".join(str(error).split())})
    return before.model_copy(
        update={"definition": _kept(known, now, names), "altered": found, "unknown": None}
    )


def _without_narrowed(
    before: TableWatch,
    known: PostgresDefinition,
    now: PostgresDefinition | None,
    names: Names,
    both: dict[str, tuple[str, str]],
) -> tuple[TableWatch, dict[str, tuple[str, str]]]:
    """Return what is seen with columns whose narrowing is ignored, and the names of all others."""
    if now is None:
        return before, both
    old, new = known.columns, now.columns
    found = names.narrowed(both, lambda one, other: is_narrowed(old[one], new[other]))
    narrowed = [
        NarrowedColumn(
            column=name,
            before=old[both[name][0]].type,
            after=new[both[name][1]].type,
            since_ms=before.looked_ms,
        )
        for name in sorted(found)
    ]
    others = {name: each for name, each in both.items() if name not in found}
    return before.with_narrowed(narrowed), others


def _no_longer_captured(
    connection: psycopg.Connection, table: CapturedTable, capture: Capture, now_ms: int
) -> AlteredTable | None:
    """Return why changes of a table no longer arrive; None if they do."""
    publication = capture.publication
    if publication is None:
        publication = read_publication(connection, table.options.log_reader)
    try:
        require_capturable(
            connection,
            table.name,
            table.columns,
            table.sink,
            truncates=table.truncates,
            publication=publication,
        )
        check_publication(connection, table, publication)
    except InputError as error:
        return alteration_by_refusal(table.name, error, now_ms)
    return None


def _kept(
    before: object, now: PostgresDefinition | None, names: Names
) -> PostgresDefinition | None:
    """Return what the next look goes by: columns that the table lacks as they were."""
    if now is None or not isinstance(before, PostgresDefinition):
        return now
    there = names.found_in(now.columns)
    lacking = {
        old: before.columns[old]
        for name, old in names.found_in(before.columns).items()
        if name not in there
    }
    return now.model_copy(update={"columns": {**now.columns, **lacking}})
