"""Which syntax of Spark SQL is translated to DuckDB's: columns, fields, IN, BETWEEN, LIKE, IS."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from hybrid_extensions.expressions.casts import cast
from hybrid_extensions.expressions.choices import CHOICES, case
from hybrid_extensions.expressions.operators import (
    ARITHMETIC,
    COMPARISONS,
    arithmetic,
    comparison,
    logic,
    negation,
    shifted_time,
)
from hybrid_extensions.expressions.texts import TEXTS, Function, concatenation, like, matches
from hybrid_extensions.expressions.times import TIMES
from hybrid_extensions.expressions.values import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    STRING,
    UnprovenError,
    Value,
    duck,
    result_value,
    spark_name,
)
from sources.common.schema import TIMESTAMP, parse_type
from sources.common.sql.sql_names import literal, quoted
from sources.errors import InputError

FUNCTIONS: dict[str, Function] = {**TEXTS, **TIMES, **CHOICES}
"""The functions that are proven, by their names in Spark."""


class Translator:
    """Translator of one expression of Spark SQL to DuckDB's SQL, over given columns.

    Each method translates one kind of node of sqlglot's tree, and raises UnprovenError for what is
    not proven to mean the same in DuckDB. Call :meth:`value` with the root.

    Args:
        columns: The columns that the expression may use, with Spark's types.
    """

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns

    def value(self, tree: exp.Expr) -> Value:
        """Translate any node of an expression, with all nodes below it.

        Raises:
            UnprovenError: A node is not on the list of those proven to mean the same in DuckDB.
        """
        kind = type(tree)
        if kind in COMPARISONS:
            return comparison(COMPARISONS[kind], self.value(tree.this), self.value(tree.expression))
        if kind in ARITHMETIC:
            return self._arithmetic(ARITHMETIC[kind], tree)
        if kind in _NODES:
            return _NODES[kind](self, tree)
        if isinstance(tree, exp.Anonymous):
            name = str(tree.this).lower()
            if name in FUNCTIONS:
                return FUNCTIONS[name](name, [self.value(each) for each in tree.expressions])
            message = f"the function `{name}`"
            raise UnprovenError(message)
        message = f"`{tree.sql('spark')}`"
        raise UnprovenError(message)

    def column(self, tree: exp.Expr) -> Value:
        """Translate a column, or a field of a struct, to DuckDB's SQL with its type.

        Raises:
            UnprovenError: There is no such column or field, in this case of letters, or it is a
                timestamp without a zone.
        """
        assert isinstance(tree, exp.Column)
        names = [part.name for part in tree.parts]
        if self._columns.get_all_field_indices(names[0]) == []:
            message = f"the column `{names[0]}`"
            raise UnprovenError(message)
        found = Value(quoted(names[0]), self._columns.field(names[0]).type)
        for name in names[1:]:
            found = _field(found, name)
        if pa.types.is_timestamp(found.type):
            if found.type.tz is None:
                message = f"the column `{names[-1]}`, a timestamp without a zone"
                raise UnprovenError(message)
            return Value(found.sql, TIMESTAMP)
        return found

    def dot(self, tree: exp.Expr) -> Value:
        """Translate access to a field of a struct that an expression computes.

        Raises:
            UnprovenError: The expression is no struct with this field, or is not proven itself.
        """
        return _field(self.value(tree.this), tree.expression.name)

    def bracket(self, tree: exp.Expr) -> Value:
        """Translate access to a list by a literal index, or to a map by a literal text.

        An index beyond the list fails, as in Spark.

        Raises:
            UnprovenError: It is another access.
        """
        of = self.value(tree.this)
        index = self.value(tree.expressions[0])
        if pa.types.is_map(of.type) and of.type.key_type == STRING and index.text is not None:
            return result_value(f"{of.sql}[{index.sql}]", of.type.item_type, [of])
        if pa.types.is_list(of.type) and index.whole is not None and index.whole >= 0:
            number = index.whole
            # Spark fails beyond the end, DuckDB returns null.
            short = f"len({of.sql}) <= {number}"
            fails = f"error('no item {number}' || left(CAST({of.sql} AS VARCHAR), 0))"
            item = f"CASE WHEN {short} THEN {fails} ELSE {of.sql}[{number + 1}] END"
            return result_value(item, of.type.value_type, [of], fails=True)
        message = f"`{tree.sql('spark')}`"
        raise UnprovenError(message)

    def literal(self, tree: exp.Expr) -> Value:
        """Translate a literal text or number to DuckDB's SQL, with the type that Spark gives it.

        Raises:
            UnprovenError: It is a number whose type or value is not proven to be the same.
        """
        text = tree.name
        if tree.is_string:
            return Value(literal(text), STRING, text)
        return _number(text)

    def cast(self, tree: exp.Expr) -> Value:
        """Translate a cast; ``CAST`` and ``::`` fail where ``try_cast`` returns null.

        Raises:
            UnprovenError: The cast is not proven, or the type is not known.
        """
        try:
            target = parse_type(tree.args["to"].sql("spark"))
        except InputError:
            message = f"the type `{tree.args['to'].sql('spark')}`"
            raise UnprovenError(message) from None
        return cast(self.value(tree.this), target, is_try=bool(tree.args.get("safe")))

    def negative(self, tree: exp.Expr) -> Value:
        """Translate the negation of a number; that of a literal is a literal.

        Raises:
            UnprovenError: The operand is no number, or is not proven.
        """
        if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
            return _number(f"-{tree.this.name}")
        return negation(self.value(tree.this))

    def both(self, tree: exp.Expr) -> Value:
        """Translate a chain of ``AND``, or of ``OR``, of any length.

        Raises:
            UnprovenError: An operand is no boolean, or is not proven.
        """
        return logic(type(tree).__name__.upper(), [self.value(each) for each in tree.flatten()])

    def opposite(self, tree: exp.Expr) -> Value:
        """Translate ``NOT`` of a boolean.

        Raises:
            UnprovenError: The operand is no boolean, or is not proven.
        """
        of = self.value(tree.this)
        if of.type not in (BOOLEAN, NULL):
            message = f"NOT of {spark_name(of.type)}"
            raise UnprovenError(message)
        return result_value(f"NOT {of.sql}", BOOLEAN, [of])

    def between(self, tree: exp.Expr) -> Value:
        """Translate ``BETWEEN``, whose bounds are inclusive.

        Raises:
            UnprovenError: The operands can't be compared, or are not proven.
        """
        value, low, high = (self.value(tree.args[name]) for name in ("this", "low", "high"))
        return logic("AND", [comparison(">=", value, low), comparison("<=", value, high)])

    def one_of(self, tree: exp.Expr) -> Value:
        """Translate ``IN`` with a list of values.

        Raises:
            UnprovenError: It has a query instead of a list, or the values can't be compared.
        """
        if not tree.expressions or tree.args.get("query") is not None:
            message = "`IN` of something else than a list"
            raise UnprovenError(message)
        value = self.value(tree.this)
        found = [comparison("=", value, self.value(each)) for each in tree.expressions]
        return logic("OR", found)

    def is_what(self, tree: exp.Expr) -> Value:
        """Translate ``IS NULL``, ``IS TRUE`` or ``IS FALSE``.

        Raises:
            UnprovenError: It is another ``IS``, or its operand is not proven.
        """
        of, what = self.value(tree.this), tree.expression
        if isinstance(what, exp.Null):
            return result_value(f"{of.sql} IS NULL", BOOLEAN, [of])
        if isinstance(what, exp.Boolean) and of.type == BOOLEAN:
            return result_value(f"{of.sql} IS {'TRUE' if what.this else 'FALSE'}", BOOLEAN, [of])
        message = f"`{tree.sql('spark')}`"
        raise UnprovenError(message)

    def choice(self, tree: exp.Expr) -> Value:
        """Translate ``CASE``, with or without a value that is compared with the branches.

        Raises:
            UnprovenError: A part is not proven, or the results have no common type.
        """
        of = None if tree.this is None else self.value(tree.this)
        tests = [self.value(each.this) for each in tree.args["ifs"]]
        if of is not None:
            tests = [comparison("=", of, each) for each in tests]
        results = [self.value(each.args["true"]) for each in tree.args["ifs"]]
        default = tree.args.get("default")
        results.append(Value("NULL", NULL) if default is None else self.value(default))
        return case(tests, results)

    def condition(self, tree: exp.Expr) -> Value:
        """Translate the function ``if``: a condition and two results, the second one optional.

        Raises:
            UnprovenError: A part is not proven, or the results have no common type.
        """
        parts = [tree.this, tree.args["true"], tree.args.get("false") or exp.Null()]
        test, *results = (self.value(each) for each in parts)
        return case([test], results)

    def matched(self, tree: exp.Expr) -> Value:
        """Translate ``LIKE`` or ``RLIKE`` with a literal pattern, with or without ``NOT``.

        Raises:
            UnprovenError: The pattern is not one that Spark and DuckDB read alike.
        """
        values = [self.value(tree.this), self.value(tree.expression)]
        found = like("LIKE", values) if isinstance(tree, exp.Like) else matches("RLIKE", values)
        return (
            result_value(f"NOT {found.sql}", BOOLEAN, [found]) if tree.args.get("negate") else found
        )

    def pipes(self, tree: exp.Expr) -> Value:
        """Translate ``||``, which concatenates texts.

        Raises:
            UnprovenError: An operand is neither a text nor an integer, or is not proven.
        """
        return concatenation("||", [self.value(tree.this), self.value(tree.expression)])

    def _arithmetic(self, sign: str, tree: exp.Expr) -> Value:
        left, right = self.value(tree.this), tree.expression
        if isinstance(right, exp.Interval) and sign in ("+", "-"):
            if not isinstance(right.this, exp.Literal) or right.args.get("unit") is None:
                message = f"`{right.sql('spark')}`"
                raise UnprovenError(message)
            return shifted_time(sign, left, right.this.name, right.args["unit"].name)
        return arithmetic(sign, left, self.value(right))


def _field(of: Value, name: str) -> Value:
    if not pa.types.is_struct(of.type) or of.type.get_field_index(name) < 0:
        message = f"the field `{name}` of {spark_name(of.type)}"
        raise UnprovenError(message)
    kind = of.type.field(name).type
    return result_value(f"struct_extract({of.sql}, {literal(name)})", kind, [of])


def _number(text: str) -> Value:
    """Return a literal number: an integer, a decimal, or with an exponent a double."""
    if "e" in text.lower():
        return Value(f"CAST('{text}' AS DOUBLE)", DOUBLE, may_fail=False)
    number = Decimal(text)
    if "." not in text:
        for kind, bits in ((INT, 31), (BIGINT, 63)):
            if -(2**bits) <= number < 2**bits:
                return Value(f"CAST({literal(text)} AS {duck(kind)})", kind, int(number))
    digits = text.lstrip("-").replace(".", "")
    scale = len(text.partition(".")[2])
    precision = max(len(digits.lstrip("0")), scale)
    if not 0 < precision <= 37:
        message = f"the number {text}"
        raise UnprovenError(message)
    decimal = pa.decimal128(precision, scale)
    return Value(f"CAST({literal(text)} AS {duck(decimal)})", decimal, number)


_NODES: dict[type[exp.Expr], Callable[[Translator, exp.Expr], Value]] = {
    exp.Paren: lambda self, tree: self.value(tree.this),
    exp.Column: Translator.column,
    exp.Dot: Translator.dot,
    exp.Bracket: Translator.bracket,
    exp.Literal: Translator.literal,
    exp.Null: lambda *_: Value("NULL", NULL),
    exp.Boolean: lambda _, tree: Value(str(tree.this).lower(), BOOLEAN, bool(tree.this)),
    exp.Cast: Translator.cast,
    exp.TryCast: Translator.cast,
    exp.Neg: Translator.negative,
    exp.And: Translator.both,
    exp.Or: Translator.both,
    exp.Not: Translator.opposite,
    exp.Between: Translator.between,
    exp.In: Translator.one_of,
    exp.Is: Translator.is_what,
    exp.Case: Translator.choice,
    exp.If: Translator.condition,
    exp.Like: Translator.matched,
    exp.RegexpLike: Translator.matched,
    exp.DPipe: Translator.pipes,
}
