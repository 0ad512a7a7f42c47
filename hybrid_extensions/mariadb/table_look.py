"""Look at a captured MariaDB or MySQL table: inspection for alterations that no change reports.

They are found in the statements that the connector reports, and in the catalog. Statements that run
with ``sql_log_bin=0`` are in no log.
"""

from __future__ import annotations

from hybrid_extensions.cdc.databases.altered_table import (
    AlteredTable,
    Names,
    RequiredColumn,
    TableWatch,
    alteration_by_refusal,
    alteration_of,
)
from hybrid_extensions.cdc.databases.captured_table import CapturedTable, QueryError, UnknownDefault
from hybrid_extensions.cdc.databases.connector_lists import find_capture
from hybrid_extensions.cdc.databases.kafka_connect import without_passwords
from hybrid_extensions.mariadb.catalog_definition import (
    judge_definitions,
    read_definition,
)
from hybrid_extensions.mariadb.judged_statements import is_in, judge, newly_required
from hybrid_extensions.mariadb.log.schema_changes import read_statements
from hybrid_extensions.mariadb.long_files import find_long_files
from hybrid_extensions.mariadb.server import LOOK_S, connect, parse_address, query_errors
from hybrid_extensions.mariadb.snapshot.capture_checks import (
    check_settings,
    check_table,
    server_variables,
)
from hybrid_extensions.mariadb.snapshot.rights import MissingRight
from sources.common.database_snapshot import BinlogSnapshot, DatabaseSnapshot
from sources.common.table_definition import BinlogDefinition
from sources.config.source.kafka_source import KafkaSource
from sources.errors import HybridError, InputError

_GAP = "Statements that altered rows may be missing: run `hybrid compare P`"


def look_at_table(
    table: CapturedTable,
    topic: KafkaSource,
    names: Names,
    before: TableWatch,
    snapshot: DatabaseSnapshot,
) -> TableWatch:
    """Inspect a table for alterations: its statements, its catalog entry, the server's settings.

    Nothing is written. A check that could not be made is no error: ``unknown`` of the result says
    why, and the next look makes it again.

    Args:
        table: The table.
        topic: The topic of its changes.
        names: Names of its captured columns.
        before: Result of the last look, or of its snapshot, with the time of this look.
        snapshot: Position of its snapshot.

    Returns:
        What this look saw; ``altered`` if something was done that no change reports.

    Raises:
        InputError: The database refuses.
        UnavailableError: The database does not answer.
    """
    assert isinstance(snapshot, BinlogSnapshot)  # it was taken of this kind of database
    seen, unknown = _look_at_statements(table, topic, names, before, snapshot)
    if seen.altered is None:
        try:
            seen = _look_at_catalog(table, names, seen, snapshot)
        except (QueryError, MissingRight) as error:
            unknown = str(error)
    return seen.model_copy(update={"unknown": unknown})


def _look_at_statements(
    table: CapturedTable,
    topic: KafkaSource,
    names: Names,
    before: TableWatch,
    snapshot: BinlogSnapshot,
) -> tuple[TableWatch, str | None]:
    """Return what the statements since the last look tell, or why they can't be read."""
    capture = find_capture(table, topic, before.prefix)
    if capture.problem is not None:
        left_out = alteration_of(table.name, capture.problem, before.looked_ms)
        return before.model_copy(update={"altered": left_out}), None
    prefix = capture.prefix
    if capture.is_told:
        before = before.model_copy(update={"prefix": prefix})
    if prefix is None:
        return before, (
            "the topic of statements is not known: declare `snapshot.connector`, or name the topic "
            "of changes <topic.prefix>.<database>.<table>"
        )
    if not capture.reports_statements:
        return before, (
            "`include.schema.changes` of the connector is `false`: set it to `true`, so that "
            "statements are reported"
        )
    try:
        statements, ends, gap = read_statements(topic, prefix, before.statements)
    except (UnknownDefault, HybridError) as error:
        return before, f"statements can't be read: {error}"
    known = before.stated if isinstance(before.stated, BinlogDefinition) else None
    if before.definition is None and not before.statements:
        # The snapshot was taken by an older version, whose runs have continued since.
        told = [each.definition for each in statements if each.definition is not None]
        stated = told[-1] if told else None
        return before.model_copy(update={"statements": ends, "stated": stated}), None
    is_begun = bool(before.statements)
    if not is_begun and not any(each.definition and is_in(each, snapshot) for each in statements):
        gap = f"topic `{prefix}` has no definition of table `{table.name}` at its snapshot"
    if gap is not None:
        before = before.model_copy(update={"gap": f"{gap}. {_GAP}"})
    stated, found, required, narrowed = judge(statements, table.name, names, snapshot, known)
    before = before.with_narrowed(narrowed)
    if found is not None:
        change, what = found
        finding = alteration_of(
            table.name, what, before.looked_ms, is_redefined=stated not in (None, known)
        )
        finding = finding.model_copy(
            update={
                "statement": without_passwords(change.statement) or None,
                "since_ms": change.at_ms or None,
            }
        )
        return before.model_copy(update={"altered": finding}), None
    named = {each.column for each in required}
    required = [*(each for each in before.required if each.column not in named), *required]
    changes = {"statements": ends, "stated": stated, "required": required}
    return before.model_copy(update=changes), None


def _look_at_catalog(
    table: CapturedTable, names: Names, before: TableWatch, snapshot: BinlogSnapshot
) -> TableWatch:
    """Return what the catalog and the server's settings tell."""
    address = parse_address(table.options.dsn)
    with connect(address, table.source, LOOK_S) as connection, query_errors():
        now = read_definition(connection, table.name)
        if now is None:
            text = f"there is no table `{table.name}`, or its columns can't be read"
            raise QueryError(text, is_connection_lost=False)
        known, what = before.definition, None
        if isinstance(known, BinlogDefinition):
            narrowed, what = judge_definitions(known, now, names, before.looked_ms)
            # The statement is told with its time, if it is known.
            told = {(each.column, each.after) for each in before.narrowed}
            before = before.with_narrowed(
                [each for each in narrowed if (each.column, each.after) not in told]
            )
        variables = server_variables(connection)
        long = find_long_files(connection, table, variables, snapshot.file)
        new = [name for name in long if name not in before.long_files and known is not None]
        if what is not None:
            found: AlteredTable | None = alteration_of(
                table.name, what, before.looked_ms, is_redefined=True
            )
        elif new:
            what = (
                f"may have got older values in place of newer ones: file {new[0]} of the binary "
                "log, which one transaction made longer than 4 GiB, has the same positions twice"
            )
            found = alteration_of(table.name, what, before.looked_ms)
        else:
            found = None
            try:
                check_settings(connection, table, variables)
                check_table(connection, table, variables)
            except MissingRight:
                raise
            except InputError as error:
                found = alteration_by_refusal(table.name, error, before.looked_ms)
    known_already = {each.column for each in before.required}
    first = known if isinstance(known, BinlogDefinition) else None
    required = [
        RequiredColumn(table=table.name, column=name, since_ms=before.looked_ms)
        for name in newly_required(first, now, names)
        if name not in known_already
    ]
    changes = {
        "definition": now,
        "altered": found,
        "required": [*before.required, *required],
        "long_files": long,
    }
    return before.model_copy(update=changes)
