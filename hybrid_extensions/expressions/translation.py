"""Whether an expression of Spark SQL is proven in DuckDB: escapes, length, unknown parts."""

from __future__ import annotations

import re

import pyarrow as pa

from hybrid_extensions.expressions.nodes import Translator
from hybrid_extensions.expressions.values import NULL, UnprovenError, duck
from sources.common.sql.proven_expressions import Proven, Unproven, parse_calls

_ESCAPES = re.compile(r"\\[\\ntr'\"%_]")
# Parts repeat in the translation, so that nested expressions become long.
_LONGEST = 200_000


def translate(text: str, columns: pa.Schema) -> Proven | Unproven:
    """Translate an expression, for :func:`sources.common.sql.proven_expressions.translate`.

    Args:
        text: One expression of Spark SQL.
        columns: The columns that it may use, with Spark's types; DuckDB has the same.

    Returns:
        DuckDB's SQL with its type; or, if a part is not proven to mean the same, that part as
        text. Raises nothing for an expression that can't be parsed.
    """
    try:
        if "\\" in _ESCAPES.sub("", text):
            message = "an escape in a text other than \\\\, \\n, \\t, \\r and quotes"
            raise UnprovenError(message)
        if (tree := parse_calls(text)) is None:
            message = "its syntax"
            raise UnprovenError(message)
        found = Translator(columns).value(tree)
        duck(found.type) if found.type != NULL else None
    except UnprovenError as error:
        return Unproven(str(error))
    if len(found.sql) > _LONGEST:
        return Unproven("its length in DuckDB's SQL")
    return Proven(found.sql, found.type)
