"""Which query computes the expected rows: `audit.sql`, the transform's, or the last change.

It is the user's own (``audit.sql``); or the transform's, where that is a query that DuckDB can run
as well; or the last change of each key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hybrid_extensions.audit.computed.row_versions import (
    descending,
    every_version_query,
    last_change_query,
)
from hybrid_extensions.audit.computed.translation import translate_query
from hybrid_extensions.audit.input_tables import input_tables
from sources.common.sql.sql_names import column_list, quoted
from sources.config.code.sql_file import read_sql
from sources.config.code.transform import SqlTransform
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.table.sink import Sink
from sources.errors import InputError


@dataclass(frozen=True)
class ExpectedQuery:
    """DuckDB query for the expected rows.

    Attributes:
        sql: The query.
        name: How messages name the query, in backticks.
        field: Field of the declaration that it comes from.
        hint: What to do if it fails or does not fit the target; None if the query itself has to be
            corrected.
        note: Sentence for the report on how the rows were computed; None if there is nothing to
            say.
        is_declared: Whether the query is ``audit.sql``, or the transform's, and not made from the
            sink.
        unproven: A part of the transform's query that may mean something else in DuckDB; a
            difference then proves nothing. None if there is no such part.
    """

    sql: str
    name: str = "`audit.sql`"
    field: str = "audit.sql"
    hint: str | None = None
    note: str | None = None
    is_declared: bool = True
    unproven: str | None = None


def expected_query(loaded: LoadedPipeline) -> ExpectedQuery | None:
    """Return the DuckDB query for the target's expected rows.

    Returns:
        The text of ``audit.sql``, if declared. Without it: the transform's own query, translated;
        the last change of each key for a sink with ``sequence``; None for a sink that appends what
        a function returns, where every row of ``input`` is expected unchanged.

    Raises:
        InputError: There is no such query, its file can't be read, or the transform's query can't
            be translated.
    """
    pipeline = loaded.pipeline
    if (declared := pipeline.audit_sql) is not None:
        return ExpectedQuery(read_sql(loaded.own_file(declared), "audit.sql", declared))
    if isinstance(pipeline.transform, SqlTransform):
        return _by_transform(loaded, pipeline.transform)
    if pipeline.inputs:
        message = (
            f"Pipeline `{pipeline.name}` declares `inputs` and no `audit`: the audit can't tell "
            f"which rows `transform: {pipeline.transform.name}` makes of them."
        )
        raise InputError(message, _own_query(pipeline), pipeline=pipeline.name, field="audit")
    if pipeline.sink.mode == "append":
        return None
    if pipeline.sink.sequence:
        return ExpectedQuery(last_change_query(pipeline.sink), is_declared=False)
    message = (
        f"Pipeline `{pipeline.name}` declares `sink.mode: {pipeline.sink.mode}`, but neither "
        "`audit` nor `sink.sequence`: the audit can't tell which rows the target has to hold."
    )
    hint = (
        "Declare `audit: {sql: FILE}` with a DuckDB query that computes the target from "
        "`input`, or `sink.sequence` if the last change of each key is the row."
    )
    raise InputError(message, hint, pipeline=pipeline.name, field="audit")


def _by_transform(loaded: LoadedPipeline, transform: SqlTransform) -> ExpectedQuery:
    """Return the transform's query in DuckDB's SQL."""
    sink, declared = loaded.pipeline.sink, transform.sql
    query = translate_query(read_sql(loaded.own_file(declared), "transform.sql", declared))
    reason = query.reason
    is_final = bool(loaded.pipeline.inputs) and query.joins_alone
    if reason is None and query.combines and sink.mode == "append" and not is_final:
        reason = "it combines rows, and groups that are not final are not in the target yet"
    if reason is None and query.combines and sink.sequence:
        reason = "it combines rows, of which the sink then keeps the last change"
    if reason is not None:
        message = (
            f"The audit can't compute the target by `transform.sql: {declared}`, as it would by "
            f"default: {reason}."
        )
        hint = _own_query(loaded.pipeline)
        raise InputError(message, hint, field="audit.sql", value=declared)
    made = ExpectedQuery(
        query.sql,
        name=f"`transform.sql: {declared}`, run by DuckDB,",
        field="transform.sql",
        hint=_own_query(loaded.pipeline),
        note=f"DuckDB computed the expected rows by the transform's own query, {declared}.",
        unproven=query.unproven,
    )
    return replace(made, sql=_last_of(made.sql, sink)) if sink.sequence else made


def _last_of(query: str, sink: Sink) -> str:
    """Return SQL for the last change of each key, or every one, of what a query makes of them.

    A change that the query leaves out changes nothing, so the query has to see all of them.
    """
    excluded, remaining = "", ""
    if sink.deleted is not None and sink.removes_rows:
        deleted = quoted(sink.deleted)
        excluded, remaining = f" EXCLUDE ({deleted})", f" WHERE NOT coalesce({deleted}, false)"
    of_all = f"WITH input AS (SELECT * EXCLUDE (_place) FROM audit.rows), changes AS ({query})"
    if sink.history is not None:
        return f"{of_all} {every_version_query(sink, 'SELECT * FROM changes')}"
    return (
        f"{of_all}, latest AS (SELECT * FROM changes QUALIFY row_number() OVER "
        f"(PARTITION BY {column_list(sink.key)} ORDER BY {descending(sink.order)}) = 1) "
        f"SELECT *{excluded} FROM latest{remaining}"
    )


def _own_query(pipeline: Pipeline) -> str:
    """Return the way out where no query computes the expected rows, as a sentence."""
    query = "Declare `audit: {sql: FILE}` with a DuckDB query that computes the target from"
    return f"{query} {' and '.join(f'`{name}`' for name in input_tables(pipeline))}."
