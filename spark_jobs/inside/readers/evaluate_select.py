"""Evaluation of a source's `select` by Spark; refused if a type differs from the planned one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import names_and_types
from sources.common.sql.select import Selection
from sources.common.sql.sql_names import in_backticks
from sources.errors import InputError


def select_columns(
    rows: DataFrame, selection: Selection, columns: pa.Schema, kept: Sequence[str] = ()
) -> DataFrame:
    """Return rows with the columns that a source's ``select`` computes; unchanged without one.

    Args:
        rows: Rows with the columns that the source has.
        selection: SQL expressions by name of the column that each computes.
        columns: Schema of the planned result, with which the computed types are compared.
        kept: Names of further columns of the rows that are kept, in front.

    Raises:
        InputError: Spark can't evaluate an expression, or its type differs from the planned one.
    """
    if not selection.expressions:
        return rows
    where = f"Source `{selection.source}`: `select`"
    try:
        expressions = [F.expr(text).alias(name) for name, text in selection.expressions.items()]
        made = rows.select(*map(in_backticks, kept), *expressions)
    except AnalysisException as error:
        message = f"{where} can't be evaluated: {str(error).splitlines()[0]}"
        usable = [name for name in rows.columns if name not in kept]
        hint = (
            f"Correct the expression under `select` of source `{selection.source}`; the columns "
            f"that it may use are {', '.join(usable)}. No row was read or written by it."
        )
        raise InputError(message, hint, source=selection.source, field="select") from None
    types = {field.name: field.dataType.simpleString() for field in made.schema}
    for name, kind in names_and_types(columns).items():
        if types.get(name) != kind:
            text = selection.expressions.get(name, name)
            message = (
                f"{where} returns `{name}` as {types.get(name)} (`{name}: {text}`), but the plan "
                f"says {kind}."
            )
            hint = (
                f"Write `{name}: CAST({text} AS {kind})` there, and repeat the command. No row was "
                "read or written by it."
            )
            field = f"select.{name}"
            raise InputError(message, hint, source=selection.source, column=name, field=field)
    return made
