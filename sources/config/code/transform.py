"""Declaration of the transform: a function, or a query in a file next to the pipeline's file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Discriminator, Tag

from sources.common.durations import Duration
from sources.common.fields import Declared, Reference, or_text

_FUNCTION = "a function"
_SQL = "a query"


def _next_to_the_file(value: str) -> str:
    path = PurePosixPath(value)
    if "://" in value or value.startswith("~") or path.is_absolute() or ".." in path.parts:
        message = (
            f"`{value}` is not next to the pipeline's file. Move the query into that folder, or "
            "into one below it, and declare its path from there: a copy of it is kept with each "
            "generation."
        )
        raise ValueError(message)
    return value


class FunctionTransform(Declared):
    """A function from DataFrame to DataFrame. Its name is enough.

    Attributes:
        function: Name of the function as ``module:function``. Modules next to the pipeline's file
            are found first, then installed ones.

    """

    function: Reference

    @property
    def name(self) -> str:
        """Name of the transform in messages: ``module:function``."""
        return self.function

    @property
    def module(self) -> str:
        """Name of the function's module, dotted."""
        return self.function.partition(":")[0]

    @property
    def attribute(self) -> str:
        """Name of the function in its module."""
        return self.function.partition(":")[2]


class Watermark(Declared):
    """Watermark of the rows that a query reads, as withWatermark of a DataFrame sets it.

    Attributes:
        column: Timestamp column of the rows, usually the event time.
        delay: How far a row may lie behind the highest time read before stateful operators drop
            it.

    """

    column: str
    delay: Duration


class SqlTransform(Declared):
    """A query in Spark SQL over a view of the rows of all sources, named input.

    Attributes:
        sql: File with one query. Its path is relative to the pipeline's file, next to it or in a
            folder below.
        watermark: Watermark that is set on the rows before the query sees them; by default none.

    """

    sql: Annotated[str, AfterValidator(_next_to_the_file)]
    watermark: Watermark | None = None

    @property
    def name(self) -> str:
        """Name of the transform in messages: the path of the file."""
        return self.sql


def _tag(value: Any) -> str:
    """Return the kind of transform that is declared; a mapping without either field is a query."""
    is_function = isinstance(value, str | FunctionTransform) or (
        isinstance(value, Mapping) and "function" in value
    )
    return _FUNCTION if is_function else _SQL


DeclaredTransform = Annotated[
    Annotated[FunctionTransform, or_text(FunctionTransform, "function"), Tag(_FUNCTION)]
    | Annotated[SqlTransform, Tag(_SQL)],
    Discriminator(_tag),
]
"""A function by its name, ``module:function``, or a query: ``{sql: FILE}``."""
TRANSFORM_MODELS: Mapping[str, type[BaseModel]] = {_FUNCTION: FunctionTransform, _SQL: SqlTransform}
"""The models of a transform by the tags that Pydantic's errors name them by."""
