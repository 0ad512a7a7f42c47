"""Row rules and sample in the audit's SQL; recount of rows that break a rule against the runs'."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from hybrid_extensions.audit.recount.bad_record_outcome import recount_outcome
from hybrid_extensions.audit.recount.quarantine import count_not_quarantined, count_quarantined
from hybrid_extensions.comparison.duckdb_database import count_rows
from orchestration.comparison.report import BadLine, Outcome
from sources.common.sql.sql_names import literal, quoted
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.table.row_rules import RULE_KIND, RowRules
from sources.state.generation import Generation
from sources.storage.stores import Stores


def within_sample(rules: RowRules, rows: str) -> str:
    """Return a FROM clause for the rows of the declared sample; for all rows without one.

    Args:
        rules: The rules, with the sample.
        rows: A FROM clause: a table or a query in parentheses.
    """
    condition = rules.sample_in_duckdb
    return rows if condition is None else f"(SELECT * FROM {rows} WHERE {condition})"


def rows_meeting_rules(rules: RowRules, rows: str) -> str:
    """Return an SQL query for the rows that break no rule.

    A rule that only Spark evaluates leaves no row out here: it has to be one that ends the run
    (:func:`hybrid_extensions.audit.computed.proven_expressions.require_proven_rules`).

    Args:
        rules: The rules.
        rows: A FROM clause: a table or a query in parentheses.
    """
    condition = f" WHERE {rules.duckdb_sql} IS NULL" if rules.rules else ""
    return f"SELECT * FROM {rows}{condition}"


def broken_table(source: str) -> str:
    """Return the SQL name of the table of a topic's records that break a rule.

    Its columns are ``_place`` (topic), ``_partition``, ``_offset`` and ``_reason``, the name of the
    rule; :func:`create_broken` creates it.
    """
    return f"audit.{quoted(f'{source}.broken')}"


def create_broken(
    connection: duckdb.DuckDBPyConnection, rules: RowRules, source: str, rows: str
) -> None:
    """Create the table :func:`broken_table` of a topic's records that break a rule.

    Args:
        connection: The audit's database.
        rules: The rules.
        source: Name of the source.
        rows: SQL name of the view of the topic's rows, before any rule.
    """
    broken = rules.duckdb_sql if rules.rules else "NULL::VARCHAR"
    connection.execute(
        f"CREATE TABLE {broken_table(source)} AS SELECT _topic AS _place, _partition, _offset, "
        f"{broken} AS _reason FROM {rows} WHERE {broken} IS NOT NULL"
    )


def broken_by_rule(
    connection: duckdb.DuckDBPyConnection, rules: RowRules, rows: str
) -> dict[str, int]:
    """Return the number of rows that break each rule, by the rule's name; others are left out.

    A row that breaks several rules counts for the first one. Empty without rules; one that only
    Spark evaluates is left out, too.

    Args:
        connection: The audit's database.
        rules: The rules.
        rows: A FROM clause: the rows before any rule.
    """
    if not rules.rules:
        return {}
    query = f"SELECT {rules.duckdb_sql} AS rule, count(*) FROM {rows} GROUP BY rule"
    return {rule: n for rule, n in connection.execute(query).fetchall() if rule is not None}


def recount_broken_records(
    connection: duckdb.DuckDBPyConnection,
    source: KafkaSource,
    rules: RowRules,
    generation: Generation | None,
    stores: Stores,
    *,
    is_whole: bool,
) -> list[BadLine]:
    """Compare a topic's records that break a rule with what the runs counted and quarantined.

    Args:
        connection: The audit's database, with :func:`broken_table` of the records that runs read.
        source: The topic's source.
        rules: The rules.
        generation: State with the runs' counts; None if there was no run.
        stores: Stores that the quarantine table may be in.
        is_whole: Whether the topic has every record that the runs may have read.

    Returns:
        A line of the report for each rule; none for a rule that ends the run and that no record
        breaks.

    Raises:
        InputError: The quarantine table exists but can't be read.
        StateError: The state can't be read.
        UnavailableError: The store of the state or of the quarantine table does not answer.
    """
    table = broken_table(source.name)
    found: dict[str, int] = {}
    lacking: dict[str, int] = {}
    for name in rules.rules:
        of_rule = f"(SELECT * FROM {table} WHERE _reason = {literal(name)})"
        found[name] = count_rows(connection, of_rule)
        if generation is not None and rules.left_out.get(name) == "quarantine":
            lacking[name] = count_not_quarantined(connection, source, generation, stores, of_rule)
    return _lines(source, rules, generation, found, lacking, is_whole=is_whole)


def recount_broken_rows(
    source: FileSource,
    rules: RowRules,
    generation: Generation | None,
    stores: Stores,
    found: Mapping[str, int],
) -> list[BadLine]:
    """Compare rows of planned files that break a rule with what runs counted and quarantined.

    The audit knows no places of these rows: they are compared by number.

    Args:
        source: The files' source.
        rules: The rules.
        generation: State with the runs' counts; None if there was no run.
        stores: Stores that the quarantine table may be in.
        found: Numbers of such rows in the raw input, by rule; rules without any may be left out.

    Returns:
        A line of the report for each rule; none for a rule that ends the run and that no row
        breaks.

    Raises:
        InputError: The quarantine table exists but can't be read.
        StateError: The state can't be read.
        UnavailableError: The store of the state or of the quarantine table does not answer.
    """
    lacking: dict[str, int] = {}
    for name, policy in rules.left_out.items():
        if generation is not None and policy == "quarantine":
            kept = count_quarantined(source, generation, stores, f"{RULE_KIND}{name}")
            lacking[name] = max(found.get(name, 0) - kept, 0)
    every = {name: found.get(name, 0) for name in rules.rules}
    return _lines(source, rules, generation, every, lacking, is_whole=True)


def _lines(
    source: FileSource | KafkaSource,
    rules: RowRules,
    generation: Generation | None,
    found: Mapping[str, int],
    lacking: Mapping[str, int],
    *,
    is_whole: bool,
) -> list[BadLine]:
    """Return a line for each rule; none for one that ends the run, if no row breaks it.

    A rule that only Spark evaluates has a line, whose outcome is ``unknown``.
    """
    count = None
    if generation is not None:
        count = generation.read(bad_count_name(source.name), BadRecordCount)
    lines = []
    outcome: Outcome
    reason: str | None
    for name, rule in rules.rules.items():
        policy, number, counted = rule.on_violation, found[name], None
        if name in rules.unproven:
            outcome = "unknown"
            why = f"{rules.unproven[name]} is not proven"
            reason = f"only Spark evaluates rule {rules.text(name)}: {why}"
        elif policy == "fail":
            if not number:
                continue
            outcome, reason = "differs", f"with rule {rules.text(name)} no run may pass them"
        else:
            if generation is not None:
                counted = 0 if count is None else count.broken.get(name, 0)
            outcome, reason = recount_outcome(number, counted, lacking.get(name), is_whole=is_whole)
        kind = f"{RULE_KIND}{name}"
        lines.append(
            BadLine(source.name, policy, number, counted, lacking.get(name), outcome, reason, kind)
        )
    return lines
