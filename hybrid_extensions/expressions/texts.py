"""Which functions of texts mean the same in Spark and DuckDB: `substring`, `regexp_extract`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hybrid_extensions.expressions.patterns import is_usual_like, java_pattern
from hybrid_extensions.expressions.values import (
    BINARY,
    BOOLEAN,
    INT,
    INTEGERS,
    NULL,
    STRING,
    Value,
    result_value,
    strict_value,
    undecided,
    unproven,
)
from sources.common.sql.sql_names import literal

Function = Callable[[str, Sequence[Value]], Value]
"""Translation of a function, from its name and arguments; raises UnprovenError if unproven."""
_PATH = re.compile(r"\$(\.[A-Za-z_][A-Za-z0-9_]*)+")
# No `IN`: DuckDB takes a longer one out of a CASE, and evaluates its operand for all rows.
_OF_JSON = "VARCHAR|U?BIGINT|BOOLEAN|NULL"


def _texts(name: str, values: Sequence[Value], *counts: int) -> list[str]:
    """Return SQL of arguments that all have to be texts, as many as a function may take."""
    if len(values) not in counts or any(each.type not in (STRING, NULL) for each in values):
        raise unproven(name, values)
    return [each.sql if each.type == STRING else "CAST(NULL AS VARCHAR)" for each in values]


def _ascii(function: str) -> Function:
    """Return a function whose result depends on tables of Unicode: ASCII only."""

    def of(name: str, values: Sequence[Value]) -> Value:
        (text,) = _texts(name, values, 1)
        is_ascii = f"{text} IS NULL OR strlen({text}) = length({text})"
        sql = f"CASE WHEN {is_ascii} THEN {function}({text}) ELSE {undecided(text)} END"
        return result_value(sql, STRING, values, fails=True)

    return of


def _length(name: str, values: Sequence[Value]) -> Value:
    if len(values) == 1 and values[0].type == BINARY:
        return result_value(f"CAST(octet_length({values[0].sql}) AS INTEGER)", INT, values)
    (text,) = _texts(name, values, 1)
    return result_value(f"CAST(length({text}) AS INTEGER)", INT, values)


def _trimmed(function: str) -> Function:
    def of(name: str, values: Sequence[Value]) -> Value:
        (text,) = _texts(name, values, 1)
        return result_value(f"{function}({text}, ' ')", STRING, values)

    return of


def concatenation(name: str, values: Sequence[Value]) -> Value:
    """Translate ``concat`` or ``||`` of texts and integers: null if one of them is null.

    Raises:
        UnprovenError: There is no argument, or one of another type.
    """
    if not values:
        raise unproven(name, values)
    parts = [
        f"CAST({each.sql} AS VARCHAR)" if each.type in INTEGERS else _texts(name, [each], 1)[0]
        for each in values
    ]
    return result_value(" || ".join(parts), STRING, values)


def _concat_ws(name: str, values: Sequence[Value]) -> Value:
    texts = _texts(name, values, *range(2, 20))
    return result_value(f"concat_ws({', '.join(texts)})", STRING, values)


def _substring(name: str, values: Sequence[Value]) -> Value:
    """Return a part of a text: Spark counts from 1, takes 0 for 1, and negatives from the end."""
    (text,) = _texts(name, values[:1], 1)
    numbers = [each.whole for each in values[1:]]
    if len(numbers) not in (1, 2) or any(
        number is None or abs(number) > 1_000_000 for number in numbers
    ):
        raise unproven(name, values)
    first, count = numbers[0] or 0, numbers[1] if len(numbers) == 2 else 2_000_000_000
    if count is None or count <= 0:
        return result_value(f"left({text}, 0)", STRING, values)
    if first >= 0:
        return result_value(f"substring({text}, {max(first, 1)}, {count})", STRING, values)
    start = f"length({text}) - {-first}"
    length = f"greatest({count} + least({start}, 0), 0)"
    return result_value(f"substring({text}, greatest({start}, 0) + 1, {length})", STRING, values)


def _side(function: str) -> Function:
    def of(name: str, values: Sequence[Value]) -> Value:
        (text,) = _texts(name, values[:1], 1)
        count = values[1].whole if len(values) == 2 else None
        if count is None or abs(count) > 1_000_000:
            raise unproven(name, values)
        return result_value(f"{function}({text}, {max(count, 0)})", STRING, values)

    return of


def _replace(name: str, values: Sequence[Value]) -> Value:
    texts = _texts(name, values, 3)
    if not values[1].text:
        raise unproven(name, values)
    return strict_value(f"replace({', '.join(texts)})", STRING, values)


def _test(function: str) -> Function:
    def of(name: str, values: Sequence[Value]) -> Value:
        texts = _texts(name, values, 2)
        return strict_value(f"{function}({', '.join(texts)})", BOOLEAN, values)

    return of


def like(name: str, values: Sequence[Value]) -> Value:
    """Translate ``LIKE`` of a text and a literal pattern, case-sensitive.

    Raises:
        UnprovenError: The pattern is no literal, or escapes something unusual.
    """
    text, pattern = _texts(name, values, 2)
    if values[1].text is None or not is_usual_like(values[1].text):
        raise unproven(name, values)
    return result_value(f"{text} LIKE {pattern} ESCAPE '\\'", BOOLEAN, values)


def matches(name: str, values: Sequence[Value]) -> Value:
    """Translate ``RLIKE``: whether a literal regular expression matches a part of a text.

    Null for a null text; case-sensitive.

    Raises:
        UnprovenError: The expression is no literal, or not one that Java and RE2 read alike.
    """
    text, _ = _texts(name, values, 2)
    pattern = java_pattern(values[1].text or "")
    if pattern is None:
        raise unproven(name, values)
    return result_value(f"regexp_matches({text}, {literal(pattern.text)})", BOOLEAN, values)


def _regexp_extract(name: str, values: Sequence[Value]) -> Value:
    text, _ = _texts(name, values[:2], 2)
    pattern = java_pattern(values[1].text or "")
    group = values[2].whole if len(values) == 3 else 1
    if pattern is None or group is None or len(values) > 3 or not 0 <= group <= pattern.groups:
        raise unproven(name, values)
    if group == 0 and pattern.has_end:
        raise unproven(name, values)
    return result_value(f"regexp_extract({text}, {literal(pattern.text)}, {group})", STRING, values)


def _regexp_replace(name: str, values: Sequence[Value]) -> Value:
    text, _, by = _texts(name, values, 3)
    pattern, put = java_pattern(values[1].text or ""), values[2].text
    if pattern is None or pattern.may_be_empty or pattern.has_end or put is None:
        raise unproven(name, values)
    if "$" in put or "\\" in put:
        raise unproven(name, values)
    return result_value(
        f"regexp_replace({text}, {literal(pattern.text)}, {by}, 'g')", STRING, values
    )


def _get_json_object(name: str, values: Sequence[Value]) -> Value:
    """Return a member of a JSON object: a text, a whole number or a boolean of valid JSON."""
    text, _ = _texts(name, values, 2)
    path = values[1].text
    if path is None or not _PATH.fullmatch(path):
        raise unproven(name, values)
    at = literal(path)
    kind = f"coalesce(json_type({text}, {at}), 'NULL')"
    # A number keeps the form in which it is written, and an escape is read: by each in its way.
    is_plain = (
        f"json_type({text}) = 'OBJECT' AND regexp_full_match({kind}, '{_OF_JSON}') "
        f"AND NOT contains({text}, '\\')"
    )
    found = (
        f"CASE WHEN {is_plain} THEN json_extract_string({text}, {at}) ELSE {undecided(text)} END"
    )
    return result_value(
        f"CASE WHEN json_valid({text}) THEN {found} "
        f"WHEN {text} IS NOT NULL THEN {undecided(text)} END",
        STRING,
        values,
        fails=True,
    )


def _digest(name: str, values: Sequence[Value]) -> Value:
    if len(values) == 1 and values[0].type in (STRING, BINARY):
        return result_value(f"md5({values[0].sql})", STRING, values)
    raise unproven(name, values)


def _sha2(name: str, values: Sequence[Value]) -> Value:
    if len(values) == 2 and values[0].type in (STRING, BINARY) and values[1].whole in (0, 256):
        return result_value(f"sha256({values[0].sql})", STRING, values)
    raise unproven(name, values)


TEXTS: dict[str, Function] = {
    "upper": _ascii("upper"),
    "ucase": _ascii("upper"),
    "lower": _ascii("lower"),
    "lcase": _ascii("lower"),
    "length": _length,
    "len": _length,
    "char_length": _length,
    "trim": _trimmed("trim"),
    "ltrim": _trimmed("ltrim"),
    "rtrim": _trimmed("rtrim"),
    "concat": concatenation,
    "concat_ws": _concat_ws,
    "substring": _substring,
    "substr": _substring,
    "left": _side("left"),
    "right": _side("right"),
    "replace": _replace,
    "startswith": _test("starts_with"),
    "endswith": _test("ends_with"),
    "contains": _test("contains"),
    "regexp_like": matches,
    "rlike": matches,
    "regexp_extract": _regexp_extract,
    "regexp_replace": _regexp_replace,
    "get_json_object": _get_json_object,
    "md5": _digest,
    "sha2": _sha2,
}
"""Functions of texts by their names in Spark."""
