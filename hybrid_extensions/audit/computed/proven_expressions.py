"""Expressions that aren't proven keep a column, or all rows, from being compared by the audit.

A column of ``select`` that only Spark evaluates is not compared. Where such an expression decides
which rows there are, nothing is compared at all: the answer is ``unknown``, never a pass and never
an alarm.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sources.common.sql.proven_expressions import Proven
from sources.common.sql.sql_names import quoted
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.table.row_rules import RowRules


class NotProvenError(Exception):
    """Error: an expression that only Spark evaluates keeps the audit from comparing rows.

    Its text is a clause that names the expression. The audit's outcome is then ``unknown``.
    """


def selected_columns(
    pipeline: Pipeline, source: FileSource | KafkaSource, columns: pa.Schema
) -> tuple[list[str], dict[str, str]]:
    """Return SQL for the columns that a source's ``select`` computes.

    Both are in the order of ``select``.

    Args:
        pipeline: Declares which columns decide which rows there are, such as the key.
        source: The source, with ``select``.
        columns: Columns of the source before ``select``.

    Returns:
        SQL of each column that DuckDB evaluates as Spark does, as ``… AS "name"``; and by name of
        each other column why it does not.

    Raises:
        NotProvenError: One of the others decides which rows there are.
    """
    proven: list[str] = []
    unproven: dict[str, str] = {}
    for name in source.select:
        found = pipeline.translation(source, name, columns)
        if isinstance(found, Proven):
            proven.append(f"{found.sql} AS {quoted(name)}")
            continue
        text = f"`select.{name}: {source.select[name]}` of source `{source.name}`"
        unproven[name] = f"only Spark evaluates {text}: {found.reason} is not proven"
    for name in sorted(_deciding(pipeline) & unproven.keys()):
        raise NotProvenError(unproven[name])
    return proven, unproven


def require_proven_rules(rules: RowRules) -> None:
    """Refuse to compare rows if a rule that only Spark evaluates removes some of them.

    A rule that ends the run removes none, so that it is allowed.

    Args:
        rules: The rules, over the columns of the rows.

    Raises:
        NotProvenError: There is such a rule.
    """
    unproven = rules.unproven
    for name in rules.left_out:
        if name in unproven:
            why = f"{unproven[name]} is not proven"
            message = f"only Spark evaluates rule {rules.text(name)}: {why}"
            raise NotProvenError(message)


def not_compared(unproven: Mapping[str, str]) -> list[str]:
    """Return a sentence for the report on each column that is not compared.

    Empty if all are.

    Args:
        unproven: Why a column is not compared, as a clause, by name of the column.
    """
    return [f"Column `{name}` is not compared: {why}." for name, why in unproven.items()]


def _deciding(pipeline: Pipeline) -> set[str]:
    """Return the columns that decide which rows there are, and which of them count."""
    sink = pipeline.sink
    named = [sink.deleted, sink.history, sink.unchanged, pipeline.event_time.column]
    sampled = [] if pipeline.sample is None else pipeline.sample.by
    return {
        *pipeline.key,
        *sink.row_key,
        *sink.order,
        *sampled,
        *(name for name in named if name is not None),
        *pipeline.row_rules.columns,
    }
