"""Evaluation of a source's ``select`` by Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import names_and_types
from sources.common.select import Selection
from sources.errors import InputError


def select_columns(
    rows: DataFrame, selection: Selection, columns: pa.Schema, kept: Sequence[str] = ()
) -> DataFrame:
    """Return rows with the columns that a source's ``select`` computes; unchanged without one.

    Args:
        rows: Rows with the columns that the source has.
        selection: The expressions.
        columns: The planned columns of the result.
        kept: Further columns of the rows that are kept, in front.

    Raises:
        InputError: Spark can't evaluate an expression, or its type differs from the planned one.
    """
    if not selection.expressions:
        return rows
    where = f"Source `{selection.source}`: `select`"
    try:
        expressions = [F.expr(text).alias(name) for name, text in selection.expressions.items()]
        made = rows.select(*kept, *expressions)
    except AnalysisException as error:
        message = f"{where} can't be evaluated: {str(error).splitlines()[0]}"
        hint = "Correct the expression in the pipeline."
        raise InputError(message, hint, source=selection.source, field="select") from None
    types = {field.name: field.dataType.simpleString() for field in made.schema}
    for name, kind in names_and_types(columns).items():
        if types.get(name) != kind:
            message = f"{where} makes `{name}` a {types.get(name)}, but {kind} was planned."
            hint = f"Write CAST(… AS {kind}) around its expression."
            raise InputError(message, hint, source=selection.source, column=name)
    return made
