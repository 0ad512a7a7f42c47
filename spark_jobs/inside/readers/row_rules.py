"""Row rules (`rules`) in Spark: what breaks one fails the query or is left out; null does not.

Spark evaluates the conditions, in history and live alike, after ``select`` and after the bounds of
the event time, and before the seam filter: a row of the topic that breaks a rule is counted for the
topic, whatever history holds. Rows that are left out are staged like bad records
(:mod:`spark_jobs.inside.readers.staged_bad_records`); those of Parquet files by the driver
(:mod:`spark_jobs.inside.readers.files.parquet_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.sql.sql_names import in_backticks
from sources.config.table.row_rules import RULE_KIND, RowRules
from sources.errors import InputError
from sources.storage.folder import Folder
from spark_jobs.inside.errors.error_reports import raise_reported
from spark_jobs.inside.readers.staged_bad_records import STAGED, unmovable, without_staged
from spark_jobs.inside.readers.topics.decode_records import KEY, RECORD, TIME, VALUE
from spark_jobs.inside.readers.topics.kafka_stream import OFFSET, PARTITION, TOPIC
from spark_jobs.inside.readers.topics.record_errors import topic_partition_offset

FILE, ROW = FILE_COLUMNS = ("__file", "__row")
"""Columns of a row of a file that is no Parquet: the file, and a number of the row in it.

The number is the first byte of the row's split plus the number of the split's rows before it.
"""
_BROKEN = "__broken"
_HINT = (
    "Correct the data, or the rule. To continue without such rows, declare the rule as `{check: …, "
    "on_violation: quarantine}`, which keeps them in a table; with `on_violation: drop` they are "
    "lost. Then run the pipeline again: `hybrid run P`. No row of this micro-batch was written."
)


@dataclass(frozen=True)
class RowPlace:
    """Columns that locate a row: its record in a topic, or its file.

    Attributes:
        staged: Columns of :data:`STAGED` that say where the row is, and what it holds.
        where: The place as the beginning of a sentence.
        fields: The place as fields of an error.
    """

    staged: Mapping[str, Column]
    where: Column
    fields: Mapping[str, Column]


def place_in_log(rules: RowRules, *, is_streaming: bool) -> RowPlace:
    """Return the columns that locate a topic's row, which has ``LOG_COLUMNS``.

    Args:
        rules: The rules.
        is_streaming: Whether the rows have the columns of :func:`needed_of_record`.
    """
    staged = {"place": F.col(TOPIC), "partition": F.col(PARTITION), "offset": F.col(OFFSET)}
    if needed_of_record(rules, is_streaming=is_streaming):
        staged |= {"timestamp": F.col(TIME), "key": F.col(KEY), "value": F.col(VALUE)}
    return RowPlace(staged, *topic_partition_offset())


def place_in_file(columns: Sequence[str]) -> RowPlace:
    """Return the columns that locate a file's row, which has :data:`FILE_COLUMNS`.

    Args:
        columns: The row's own columns: its content, as JSON.
    """
    content = row_as_json(columns)
    staged = {"place": F.col(FILE), "offset": F.col(ROW), "value": content}
    where = F.concat(F.col(FILE), F.lit(", row "), content.cast("string"))
    return RowPlace(staged, where, {"file": F.col(FILE)})


def row_as_json(columns: Sequence[str]) -> Column:
    """Return a column with the row as a JSON object in UTF-8, of type binary; nulls included.

    Args:
        columns: Names of the columns that are in it.
    """
    fields = F.struct(*(F.col(in_backticks(name)) for name in columns))
    return F.to_json(fields, {"ignoreNullFields": "false"}).cast("binary")


def needed_of_record(rules: RowRules, *, is_streaming: bool) -> list[str]:
    """Return the columns of a topic's record that :func:`leave_out` needs besides its position.

    Timestamp, key and value if a stream quarantines rows that break a rule; else none.
    """
    return [*RECORD] if is_streaming and "quarantine" in rules.left_out.values() else []


def within_sample(rows: DataFrame, rules: RowRules) -> DataFrame:
    """Return the rows that are in the sample declared under ``rules``; all rows without one."""
    return rows if rules.sample is None else rows.where(rules.sample)


def leave_out(
    rows: DataFrame, rules: RowRules, place: RowPlace, staging: Folder | None
) -> DataFrame:
    """Return the rows that break no rule; the others fail the query, or are staged or dropped.

    A row that breaks a rule under ``fail`` fails the query with an :class:`InputError` that has its
    place and the rule. Others are left out; a stream with a folder for it stages them. A rule that
    is null for a row is not broken by it, as in a CHECK constraint.

    Args:
        rows: Rows of a source.
        rules: The rules.
        place: Where a row is found.
        staging: Folder in which a stream stages the source's bad records, those under ``drop``
            without their content. None if nothing is staged here: the driver has staged those of
            Parquet files before (:mod:`~spark_jobs.inside.readers.files.parquet_rules`), and a
            batch keeps them nowhere.

    Raises:
        InputError: Spark can't evaluate a rule.
    """
    if not rules.rules:
        return rows
    marked = with_broken(rows, rules)
    broken = F.col(_BROKEN)
    fails = broken.isin(rules.failing)
    if rows.isStreaming and staging is not None and rules.left_out:
        staged = F.when(fails, _refused(rules, place)).when(
            broken.isNotNull() & unmovable(), staged_row(rules, place)
        )
        return without_staged(marked, staged, staging).drop(_BROKEN)
    refused = _refused(rules, place).cast("boolean")
    return marked.where(F.when(fails, refused).otherwise(broken.isNull() & unmovable())).drop(
        _BROKEN
    )


def with_broken(rows: DataFrame, rules: RowRules) -> DataFrame:
    """Add a column with the name of the first rule that each row breaks; null if it breaks none.

    Raises:
        InputError: Spark can't evaluate a rule; names it.
    """
    try:
        return rows.select("*", F.expr(rules.spark_sql).alias(_BROKEN))
    except AnalysisException:
        require_evaluable(rows, rules)
        raise


def require_evaluable(rows: DataFrame, rules: RowRules) -> None:
    """Refuse rules with a condition that Spark can't evaluate on rows; no row is read.

    Raises:
        InputError: Names the rule, and the columns that it may use.
    """
    for name, rule in rules.rules.items():
        try:
            rows.where(F.expr(f"NOT (\n{rule.check}\n)"))
        except AnalysisException as error:
            message = f"Rule {rules.text(name)} can't be evaluated: {str(error).splitlines()[0]}"
            hint = (
                f"Correct the condition under `rules.{name}`; the columns that it may use are "
                f"{', '.join(name for name in rows.columns if name[:2] != '__')}. No row was read."
            )
            raise InputError(message, hint, field=f"rules.{name}") from None


def broken_rows(rows: DataFrame, rules: RowRules) -> DataFrame:
    """Return the rows that break a rule under ``drop`` or ``quarantine``, to be staged.

    They have the column of :func:`with_broken`, for :func:`staged_row`.

    Raises:
        InputError: Spark can't evaluate a rule; names it.
    """
    require_evaluable(rows, rules)
    # Each condition alone is compared with the statistics of Parquet files.
    any_broken = " OR ".join(f"NOT (\n{rule.check}\n)" for rule in rules.rules.values())
    broken = with_broken(rows.where(any_broken), rules)
    return broken.where(F.col(_BROKEN).isin([*rules.left_out]))


def staged_row(rules: RowRules, place: RowPlace) -> Column:
    """Return a struct with the columns of ``STAGED`` for a row that breaks a rule.

    Its content is null if the rule says ``drop``. The row has the column of :func:`with_broken`.
    """
    kept = [name for name, policy in rules.left_out.items() if policy == "quarantine"]
    columns = {
        **place.staged,
        **{
            name: F.when(F.col(_BROKEN).isin(kept), place.staged[name])
            for name in ("key", "value")
            if name in place.staged
        },
        "kind": F.concat(F.lit(RULE_KIND), F.col(_BROKEN)),
        "reason": F.concat(F.lit("it breaks rule "), _text_of(rules)),
    }
    kinds = {"partition": "int", "offset": "bigint", "timestamp": "timestamp"}
    nothing = {name: F.lit(None).cast(kinds.get(name, "binary")) for name in STAGED.names}
    return F.struct(*(columns.get(name, nothing[name]).alias(name) for name in STAGED.names))


def _text_of(rules: RowRules) -> Column:
    """Return the text of the rule that a row breaks."""
    texts = [F.when(F.col(_BROKEN) == name, F.lit(rules.text(name))) for name in rules.rules]
    return reduce(F.coalesce, texts)


def _refused(rules: RowRules, place: RowPlace) -> Column:
    message = F.concat(place.where, F.lit(": the row breaks rule "), _text_of(rules), F.lit("."))
    return raise_reported(InputError, message, _HINT, place.fields)
