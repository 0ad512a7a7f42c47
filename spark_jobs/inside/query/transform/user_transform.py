"""The user's transform: a function, or one query over `input`; the line that an error is from.

Whoever applies it or describes it need not know which of the two it is.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import getsourcefile, unwrap
from typing import Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sources.common.durations import span_ms
from sources.common.sql.sql_names import in_backticks
from sources.config.code.sql_file import read_sql
from sources.config.code.transform import FunctionTransform, SqlTransform
from sources.config.code.user_functions import CodeLine, code_line, find_line, load_function
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from spark_jobs.inside.checkpoint.transform_shape import digest, digest_of_code
from spark_jobs.inside.query.transform.given_rows import Given, frames_of

VIEW = "input"
"""Name of the view that a query reads; with several inputs there is a view of each name."""
_HINT = "Correct the query, then plan again: `hybrid plan P`. Nothing was read or written."
# `(line 3, pos 5)` of Spark's parser, `; line 3 pos 5` of its analyzer.
_LINE = re.compile(r"\bline (\d+),? pos \d+")
_TABLE = re.compile(r"UnresolvedRelation \[([^\]]*)\]")
# Two threads of a driver may apply the transform at a time, and a session has one view of a name.
_naming = threading.Lock()


class UserTransform(Protocol):
    """Loaded transform of the user, an imported function or a query in SQL; called with rows."""

    def __call__(self, given: Given) -> Any:
        """Apply the transform to the rows of its inputs, and return its result.

        That is a DataFrame, unless the user's code is wrong. Errors of the user's code are raised
        unchanged.
        """

    def digest(self) -> str:
        """Return a digest of the transform's code, which differs once the code has changed."""

    def line_of(self, error: BaseException) -> CodeLine | None:
        """Return the line of the user's code that an error of the transform comes from.

        Returns:
            The line where the transform begins if the error names none; None if that is unknown.
        """


@dataclass(frozen=True)
class FunctionCall:
    """Transform by an imported function.

    Attributes:
        loaded: The pipeline.
        declared: The declaration of the function.
        function: The function.
    """

    loaded: LoadedPipeline
    declared: FunctionTransform
    function: Callable[..., Any]

    def __call__(self, given: Given) -> Any:
        """Apply the function to rows, those of inputs by their names, and return its result."""
        return self.function(given) if isinstance(given, DataFrame) else self.function(**given)

    def digest(self) -> str:
        """Return a digest of the code of the function's module, without comments and layout.

        It differs once the code has changed.
        """
        return digest_of_code(self.function)

    def line_of(self, error: BaseException) -> CodeLine | None:
        """Return the innermost line of the user's code in an error's traceback.

        The function's first line if there is none in it; None if that is unknown, too.
        """
        if (line := find_line(self.loaded, self.declared.module, error)) is not None:
            return line
        with suppress(TypeError):
            code = getattr(unwrap(self.function), "__code__", None)
            if code is not None and (file := getsourcefile(code)) is not None:
                return code_line(self.loaded, file, code.co_firstlineno)
        return None


@dataclass(frozen=True)
class QueryCall:
    """Transform by a query in Spark SQL over the view ``input``, or a view for each input.

    Attributes:
        loaded: The pipeline.
        declared: The declaration of the query.
        text: The query, without a semicolon at its end.
    """

    loaded: LoadedPipeline
    declared: SqlTransform
    text: str

    def __call__(self, given: Given) -> DataFrame:
        """Apply the query to rows, which it reads as views; return its result.

        The view is ``input``; of several inputs each is a view of its own name.

        Raises:
            InputError: The text is not one query over the views.
            AnalysisException: Spark can't analyze the query.
        """
        views = {VIEW: given} if isinstance(given, DataFrame) else given
        spark = frames_of(given)[0].sparkSession
        self._require_query(spark, views)
        with _naming:
            try:
                for name, rows in views.items():
                    self._with_watermark(rows).createOrReplaceTempView(name)
                # Analyzed at once, so the views are not needed any more.
                return spark.sql(self.text)
            finally:
                for name in views:
                    spark.catalog.dropTempView(name)

    def digest(self) -> str:
        """Return a digest of the query's text and watermark; it differs once they changed."""
        return digest(f"{self.declared.watermark!r}\n{self.text}")

    def line_of(self, error: BaseException) -> CodeLine | None:
        """Return the line of the query's file that Spark's message names; else its first line."""
        found = _LINE.search(str(error)) if isinstance(error, PySparkException) else None
        return CodeLine(self.declared.sql, 1 if found is None else int(found[1]))

    def _require_query(self, spark: SparkSession, views: Iterable[str]) -> None:
        """Refuse all but one query over the views; Spark would run a command at once."""
        parser: Any = spark._jsparkSession.sessionState().sqlParser()
        # Spark's parser of queries knows no commands, and nothing may follow the query.
        query = parser.parseQuery(self.text)
        read = list(dict.fromkeys(_TABLE.findall(str(query.toString()))))
        lowered = {name.lower() for name in read}
        if (view := next((name for name in views if name not in lowered), None)) is None:
            return
        close = get_close_matches(view, read, 1)
        others = ", ".join(f"`{name}`" for name in read) or "no table"
        advice = f"; did you mean it by `{close[0]}`?" if close else f"; it reads {others}."
        message = (
            f"`transform: {self.declared.name}` does not read the view `{view}`, which has the "
            f"rows of {'all sources' if view == VIEW else 'that input'}{advice}"
        )
        raise InputError(message, _HINT, field="transform.sql", value=self.declared.sql)

    def _with_watermark(self, rows: DataFrame) -> DataFrame:
        watermark = self.declared.watermark
        if watermark is None:
            return rows
        if watermark.column not in rows.columns:
            listed = ", ".join(f"`{name}`" for name in rows.columns)
            message = (
                f"`transform.watermark.column` names `{watermark.column}`, which the rows do not "
                f"have; they have {listed}."
            )
            hint = "Declare one of these columns, usually the event time. Nothing was read."
            field = "transform.watermark.column"
            raise InputError(message, hint, field=field, column=watermark.column)
        delay = f"{span_ms(watermark.delay)} milliseconds"
        return rows.withWatermark(in_backticks(watermark.column), delay)


def load_transform(loaded: LoadedPipeline) -> UserTransform:
    """Load the pipeline's transform: import the function, or read the query's file.

    Raises:
        InputError: The function can't be imported, or is not callable; or the file of the query
            can't be read.
    """
    declared = loaded.pipeline.transform
    if isinstance(declared, FunctionTransform):
        return FunctionCall(loaded, declared, load_function(loaded, "transform", declared.function))
    text = read_sql(loaded.own_file(declared.sql), "transform.sql", declared.sql)
    return QueryCall(loaded, declared, text.rstrip().rstrip(";"))
