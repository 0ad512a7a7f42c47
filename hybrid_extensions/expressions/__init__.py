"""Expressions of Spark SQL on one row that DuckDB evaluates exactly as Spark does.

Belongs here: the list of what is proven equal, by operator, function, cast and types of the
arguments, with its translation to DuckDB's SQL; and the parser of expressions. Whatever is not on
the list is unproven and has no translation. Does not belong here: what follows from that for a plan
(:mod:`sources.common.sql.select`) or an audit.

`tests/hybrid_extensions/expressions` compares each entry with Spark. A new entry comes with its
expressions there.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "expressions", expressions="hybrid_extensions.expressions.translation:translate"
)
