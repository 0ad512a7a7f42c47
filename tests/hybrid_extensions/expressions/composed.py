"""Random expressions that are composed of proven parts, up to three deep."""

from __future__ import annotations

from hypothesis import strategies as st

_LEAVES = {
    "int": ["i", "j", "i16", "i8", "0", "7", "-3", "st.a", "li[0]"],
    "long": ["l", "k", "1000", "1704067200"],
    "double": ["d", "e", "0.5e0", "1e3"],
    "decimal": ["n", "1.5", "-0.01"],
    "text": ["s", "t", "num", "''", "'a-1'", "mp['k']", "get_json_object(js, '$.id')"],
    "moment": ["moment", "CAST(at AS STRING)", "CAST(day AS STRING)"],
    "bool": ["b", "c", "true"],
    "date": ["day", "until", "DATE '2024-02-29'"],
    "time": ["at", "later", "TIMESTAMP '1969-12-31 23:59:59'"],
}
_SAME = [
    "coalesce({0}, {0})", "CASE WHEN {bool} THEN {0} ELSE {0} END", "if({bool}, {0}, {0})",
    "nullif({0}, {0})", "nvl({0}, {0})", "CASE WHEN {bool} THEN {0} END",
]  # fmt: skip
_EXTREMES = ["greatest({0}, {0})", "least({0}, {0})"]
_MADE = {
    "int": [
        "{int} + {int}", "{int} - {int}", "{int} * {int}", "{int} % {int}", "abs({int})",
        "-({int})", "length({text})", "year({time})", "month({date})", "dayofweek({date})",
        "hour({time})", "second({time})", "datediff({date}, {date})", "CAST({double} AS INT)",
        "CAST({long} AS INT)", "CAST({decimal} AS INT)", "CAST({text} AS INT)",
        "try_cast({text} AS INT)", "CAST({bool} AS INT)", "weekofyear({time})", "weekday({date})",
    ],
    "long": [
        "{long} + {int}", "{long} * {long}", "{int} div {int}", "{long} div {int}",
        "floor({double})", "unix_seconds({time})", "unix_micros({time})", "CAST({time} AS BIGINT)",
        "CAST({double} AS BIGINT)", "CAST({text} AS BIGINT)", "{long} - {long}", "ceil({double})",
    ],
    "double": [
        "{double} + {double}", "{double} * {int}", "{double} - {decimal}", "{int} / {int}",
        "{double} / {long}", "CAST({text} AS DOUBLE)", "CAST({int} AS DOUBLE)", "-({double})",
        "abs({double})", "CAST({time} AS DOUBLE)", "{double} % {int}", "try_cast({text} AS DOUBLE)",
    ],
    "decimal": [
        "{decimal} + {int}", "CAST({decimal} * 2 AS DECIMAL(12,2))", "abs({decimal})",
        "CAST({text} AS DECIMAL(12,2))", "CAST({int} AS DECIMAL(12,2))", "round({decimal}, 1)",
        "CAST({decimal} - {decimal} AS DECIMAL(9,1))",
    ],
    "text": [
        "concat({text}, {text})", "{text} || '-' || {int}", "trim({text})", "upper({text})",
        "lower({text})", "substring({text}, 2)", "substring({text}, -3, 2)", "left({text}, 3)",
        "replace({text}, 'a', 'bb')", "CAST({int} AS STRING)", "CAST({long} AS STRING)",
        "CAST({decimal} AS STRING)", "CAST({time} AS STRING)", "CAST({date} AS STRING)", "{moment}",
        "date_format({time}, 'yyyyMMdd')", "regexp_extract({text}, '([0-9]+)')",
        "regexp_replace({text}, '[^a-z]', '_')", "CAST({bool} AS STRING)", "md5({text})",
        "concat_ws('/', {text}, {text})",
    ],
    "moment": ["trim({moment})", "substring({moment}, 1, 19)", "substring({moment}, 0, 10)"],
    "bool": [
        "{int} = {int}", "{long} < {int}", "{double} >= {double}", "{text} = {text}",
        "{text} < {text}", "{time} > {time}", "{date} <= {time}", "{bool} AND {bool}",
        "{bool} OR {bool}", "NOT ({bool})", "{text} LIKE '%a_%'", "{text} RLIKE '[0-9]{{2}}'",
        "({double}) IS NULL", "({text}) IS NOT NULL", "{int} BETWEEN {int} AND {long}",
        "{int} IN ({int}, 7)", "{int} <=> {int}", "startswith({text}, {text})",
        "CAST({int} AS BOOLEAN)", "{decimal} > {int}", "({bool}) IS TRUE", "isnan({double})",
    ],
    "date": [
        "CAST({time} AS DATE)", "date_add({date}, {int})", "last_day({date})",
        "trunc({date}, 'MM')", "to_date({moment})", "CAST({moment} AS DATE)",
    ],
    "time": [
        "CAST({date} AS TIMESTAMP)", "CAST({moment} AS TIMESTAMP)", "timestamp_millis({long})",
        "timestamp_seconds({int})", "date_trunc('HOUR', {time})", "{time} - INTERVAL 90 MINUTES",
        "to_timestamp({moment}, 'yyyy-MM-dd HH:mm:ss')", "try_cast({moment} AS TIMESTAMP)",
        "CAST({int} AS TIMESTAMP)", "{time} + INTERVAL '1' DAY",
    ],
}  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn, kind: str | None = None, depth: int = 3) -> str:
    """An expression of a kind of type, or of any."""
    of = kind or draw(st.sampled_from([name for name in _LEAVES if name != "moment"]))
    if depth == 0:
        return draw(st.sampled_from(_LEAVES[of]))
    more = _EXTREMES if of not in ("bool", "moment", "decimal") else []
    parts = [] if of in ("moment", "decimal") else [*_SAME, *more]
    shapes = [*_MADE[of], *(part.replace("{0}", f"{{{of}}}") for part in parts)]
    shape = draw(st.sampled_from(shapes))
    made = ""
    # One argument is as deep as it may be, the others are as deep as they come.
    while (first := shape.find("{")) >= 0:
        if shape[first + 1] == "{":
            made, shape = made + shape[:first] + "{", shape[first + 2 :]
            continue
        name, _, rest = shape[first + 1 :].partition("}")
        inner = draw(expressions(name, draw(st.integers(0, depth - 1))))
        made, shape = f"{made}{shape[:first]}({inner})", rest
    return made + shape.replace("}}", "}")
