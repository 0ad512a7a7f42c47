"""Translation of a transform's Spark SQL to DuckDB for the audit: windows, what is unproven."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from sqlglot import ErrorLevel, TokenType, exp, parse, parse_one, tokenize
from sqlglot.errors import SqlglotError

from sources.common.sql.proven_expressions import parse_calls
from sources.common.sql.row_sql import to_duckdb
from sources.common.sql.sql_names import quoted

_E = TypeVar("_E", bound=exp.Expr)

# `window` is a keyword of sqlglot, which would not read a call of it.
_WINDOW = "_spark_window"
_COMBINES = (exp.AggFunc, exp.Group, exp.Distinct, exp.Window, exp.Join, exp.SetOperation)
_START = "_window_start"
# Functions of whose results DuckDB and Spark differ for no type; of all others this is not known.
_ALIKE = frozenset(
    {
        *("abs", "avg", "coalesce", "count", "count_if", "dense_rank", "greatest", "if", "ifnull"),
        *("lag", "lead", "least", "max", "min", "nullif", "nvl", "rank", "row_number", "sum"),
        _WINDOW,
    }
)
# Of `||`, numbers and times become other texts.
_UNLIKE = (exp.Bracket, exp.Div, exp.DPipe, exp.ILike, exp.IntDiv, exp.Like, exp.RegexpLike)
_EPOCH = "TIMESTAMPTZ '1970-01-01 00:00:00+00'"


@dataclass(frozen=True)
class Translation:
    """Query in DuckDB's SQL, or the reason why there is none.

    Attributes:
        sql: The query; empty if there is none.
        reason: Why there is none, as the end of a sentence; None if there is one.
        combines: Whether a row of the result may depend on several rows of the input.
        joins_alone: Whether all that combines rows are inner joins, whose rows are final at once.
        unproven: A part of it that may mean something else in DuckDB than in Spark; None if there
            is none.
    """

    sql: str
    reason: str | None = None
    combines: bool = False
    joins_alone: bool = False
    unproven: str | None = None


@dataclass(frozen=True)
class _Window:
    """A window function's arguments, in DuckDB's SQL.

    Attributes:
        time: The time of a row.
        length: How long a window is.
        slide: How far apart windows begin; the length, if they do not overlap.
    """

    time: str
    length: str
    slide: str

    @property
    def first(self) -> str:
        """The start of the latest window that a row falls into, in DuckDB's SQL."""
        return f"time_bucket({self.slide}, {self.time}, {_EPOCH})"


class _UntranslatableError(Exception):
    """The text of this exception says why a query has no translation."""


def translate_query(text: str) -> Translation:
    """Translate a query from Spark SQL to DuckDB's SQL, if that is possible. Raises nothing.

    Windows (``window(column, length)`` or with a slide) become DuckDB's ``time_bucket``. Whether
    DuckDB knows every function that is left shows only when it runs the query.

    Returns:
        The query; or, with an empty ``sql``, the reason why there is none.
    """
    try:
        trees = parse(_with_calls(text), read="spark")
        tree = trees[0] if len(trees) == 1 else None
        if not isinstance(tree, exp.Query):
            return Translation("", "sqlglot does not read it as one query")
        unproven = _unproven(text, tree)
        for select in tree.find_all(exp.Select):
            _replace_windows(select)
        combining = [*tree.find_all(*_COMBINES)]
        joins_alone = all(map(_is_inner_join, combining))
        sql = to_duckdb(tree, ErrorLevel.RAISE)
        return Translation(sql, None, bool(combining), joins_alone, unproven)
    except SqlglotError as error:
        first = str(error).splitlines()[0].rstrip(".")
        return Translation("", f"sqlglot does not translate it into DuckDB's SQL: {first}")
    except _UntranslatableError as error:
        return Translation("", str(error))


def _is_inner_join(node: exp.Expr) -> bool:
    return isinstance(node, exp.Join) and not node.side and node.kind in ("", "INNER", "CROSS")


def _unproven(text: str, tree: exp.Expr) -> str | None:
    """Return a part of a query that may mean something else in DuckDB; None if there is none.

    Args:
        text: The query.
        tree: Its syntax tree, in which functions have other names than in the text.
    """
    if (calls := parse_calls(_with_calls(text))) is None:
        return "its syntax"
    called = (str(call.this).lower() for call in calls.find_all(exp.Anonymous))
    if unknown := [name for name in called if name not in _ALIKE]:
        return f"the function `{unknown[0]}`"
    for node in tree.walk():
        is_time = isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)
        if isinstance(node, _UNLIKE) or (isinstance(node, exp.Cast) and not is_time):
            return f"`{node.sql('spark')}`"
    return None


def _with_calls(text: str) -> str:
    """Return the query with another name in each call of ``window``."""
    tokens = tokenize(text, read="spark")
    for token, following in reversed(list(pairwise(tokens))):
        if token.token_type is TokenType.WINDOW and following.token_type is TokenType.L_PAREN:
            text = f"{text[: token.start]}{_WINDOW}{text[token.end + 1 :]}"
    return text


def _replace_windows(select: exp.Select) -> None:
    """Replace the calls of ``window`` in one SELECT, and the columns that Spark makes of them."""
    calls = [call for call in _own(select, exp.Anonymous) if call.name == _WINDOW]
    if not calls:
        return
    windows = {_window_of(call) for call in calls}
    if len(windows) > 1:
        message = "it has several kinds of windows in one SELECT"
        raise _UntranslatableError(message)
    (window,) = windows
    is_key = any(call.find_ancestor(exp.Group) for call in calls)
    start = window.first
    if window.slide != window.length:
        _repeat_rows(select, window)
        start = quoted(_START)
    else:
        # A row without a time is in no window.
        select.where(f"{window.time} IS NOT NULL", dialect="duckdb", copy=False)
    fields = {"start": start, "end": f"({start} + {window.length})"}
    whole = f"{{'start': {start}, 'end': {fields['end']}}}"
    for call in calls:
        _put(call, start if call.find_ancestor(exp.Group) else whole, fields)
    for column in _own(select, exp.Column) if is_key else []:
        name = column.name.lower()
        if column.table.lower() == "window" and name in fields:
            _put(column, fields[name], {}, name=name)
        elif name == "window" and not column.table:
            _put(column, whole, {})


def _own(select: exp.Select, kind: type[_E]) -> list[_E]:
    """Return the nodes of a kind in a SELECT, without those of the queries in it."""
    return [each for each in select.find_all(kind) if each.find_ancestor(exp.Select) is select]


def _repeat_rows(select: exp.Select, window: _Window) -> None:
    """Let a SELECT read each row once for each window that it falls into."""
    source = select.args.get("from_")
    if source is None or select.args.get("joins") or not isinstance(source.this, exp.Table):
        message = "it has windows that overlap, over something else than one table"
        raise _UntranslatableError(message)
    table = source.this
    starts = (
        f"generate_series({window.first}, {window.time} - {window.length} "
        f"+ INTERVAL '1 microsecond', -{window.slide})"
    )
    rows = parse_one(
        f"SELECT *, unnest({starts}) AS {quoted(_START)} FROM {table.sql('duckdb')}", read="duckdb"
    )
    table.replace(exp.alias_(exp.Subquery(this=rows), table.alias_or_name, table=True))


def _put(node: exp.Expr, sql: str, fields: dict[str, str], name: str = "window") -> None:
    """Replace a node by DuckDB's SQL, with the name that Spark gives the column of a result."""
    parent = node.parent
    if isinstance(parent, exp.Dot) and parent.expression.name.lower() in fields:
        # A field of a call: `window(at, '1 hour').start`.
        name = parent.expression.name.lower()
        _put(parent, fields[name], {}, name=name)
        return
    made = parse_one(sql, read="duckdb")
    if isinstance(parent, exp.Select) and node.arg_key == "expressions":
        made = exp.alias_(made, name, quoted=True)
    node.replace(made)


def _window_of(call: exp.Anonymous) -> _Window:
    """Return the window of a call: ``window(time, length)`` or ``window(time, length, slide)``."""
    time, *others = call.expressions or [exp.Null()]
    lengths = [each.this.lower() for each in others if isinstance(each, exp.Literal)]
    if len(lengths) != len(others) or len(lengths) not in (1, 2):
        message = "it has windows that are shifted, or whose length is no literal"
        raise _UntranslatableError(message)
    spans = [f"INTERVAL '{length.removeprefix('interval ')}'" for length in lengths]
    return _Window(to_duckdb(time), spans[0], spans[-1])
