"""A source's ``select`` inside Spark."""

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
    """Rows with the columns that a source's ``select`` makes; unchanged if it has none.

    Args:
        rows: With the columns that the source has.
        selection: Its expressions.
        columns: What was planned to come out.
        kept: More columns of the rows that stay, in front.

    Raises:
        InputError: Spark can't evaluate an expression, or it makes another type than planned.
    """
    if not selection.expressions:
        return rows
    where = f"Source `{selection.source}`: `select`"
    try:
        expressions = [F.expr(text).alias(name) for name, text in selection.expressions.items()]
        made = rows.select(*kept, *expressions)
    except AnalysisException as error:
        message = f"{where} can't be evaluated: {str(error).splitlines()[0]}"
        raise InputError(message, "Correct it.") from None
    found = {field.name: field.dataType.simpleString() for field in made.schema}
    for name, kind in names_and_types(columns).items():
        if found.get(name) != kind:
            message = f"{where} makes `{name}` a {found.get(name)}, planned was {kind}."
            raise InputError(message, "Write CAST(… AS <type>) around it.")
    return made
