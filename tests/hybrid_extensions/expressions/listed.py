"""Expressions that are proven, and some that are not: those that people write, for every type."""

from __future__ import annotations

from itertools import product

_INTEGERS = ("i8", "i16", "i", "l")
_NUMBERS = (*_INTEGERS, "d", "n", "q", "w")
_ORDERED = (*_NUMBERS, "s", "b", "day", "at", "bin", "f")


def _fill(templates: str, **names: tuple[str, ...]) -> list[str]:
    """Each line of templates, for all combinations of names."""
    lines = [line.strip() for line in templates.strip().splitlines()]
    return [
        line.format(**dict(zip(names, picked, strict=True)))
        for line in lines
        for picked in product(*names.values())
    ]


COMPARISONS = [
    *_fill(
        """
        {x} IS NULL
        {x} IS NOT NULL
        {x} = {x}
        {x} <=> NULL
        """,
        x=_ORDERED,
    ),
    *_fill(
        "{pair}",
        pair=(
            "i = j", "i <> j", "i < j", "i >= l", "l > k", "l <= i8", "d < e", "d = e", "d >= f",
            "d != 0", "d <=> e", "d > 2.5", "i > d", "n < q", "n = 1.5", "q > i", "n <=> 1.50",
            "n >= j", "d > n", "s < t", "s = t", "s <=> t", "s > ''", "s != 'Zoë'", "bin < bin",
            "b = c", "b < c", "b <=> c", "day < until", "day = until", "at > later", "at <= later",
            "at > '2024-01-01'", "day >= '2024-01-01'", "at < day", "day = at",
            "at >= '2024-01-01 10:00:00+02:00'", "at > TIMESTAMP '1970-01-01 00:00:00'",
            "day < DATE '1970-01-01'", "i == 7", "i IS DISTINCT FROM j", "st.a = 1", "st.b = 'x'",
            "i BETWEEN -7 AND 7", "d BETWEEN 0 AND 3", "s BETWEEN 'a' AND 'c'",
            "at BETWEEN later AND '2030-01-01'", "i NOT BETWEEN 0 AND 5", "i IN (1, 7, NULL)",
            "s IN ('abc', 'Zoë')", "s NOT IN ('abc', '')", "l IN (1, 9223372036854775807)",
            "n IN (1.5, 0)", "d IN (2.5, 0)", "day IN (DATE '2024-02-29')", "i IN (j, 7)",
            "b IS TRUE", "b IS NOT TRUE", "b IS FALSE", "c IS NOT FALSE", "isnull(i)",
            "isnotnull(s)", "isnan(d)", "i <> 2147483648", "l = -9223372036854775808",
            "i8 < 128", "i16 > -32769", "w = w",
        ),
    ),
]  # fmt: skip

LOGIC = [
    "b AND c", "b OR c", "NOT b", "!c", "b AND c OR NOT b", "(b OR c) AND b", "b AND NULL",
    "b OR NULL", "NULL AND c", "NOT NULL", "b AND true", "c OR false", "NOT (b AND c)",
    "j <> 0 AND i % j = 1", "j = 0 OR i % j = 1", "b AND i / j > 0", "b OR i div j > 0 OR c",
    "d > 0 AND e > 0 AND n > 0", "s IS NOT NULL AND length(s) > 2",
    "num IS NOT NULL AND CAST(num AS INT) > 0", "i > 0 -- a comment",
]  # fmt: skip

ARITHMETIC = [
    *_fill("{x} + {y}\n{x} - {y}\n{x} * {y}", x=("i8", "i16", "i", "l"), y=("j", "k", "2")),
    *_fill("{x} / {y}", x=("i8", "i", "l", "d"), y=("j", "e", "2")),
    *_fill("{x} % {y}\n{x} div {y}", x=("i8", "i", "l"), y=("j", "k", "-3")),
    *_fill("{x} + {y}\n{x} - {y}\n{x} * {y}", x=("d",), y=("e", "i", "n", "1.5", "1e3", "l")),
    *_fill("{x} + {y}\n{x} - {y}\n{x} * {y}", x=("n",), y=("q", "j", "1.5", "100", "n", "i8")),
    "d % e", "d / 0.5", "-i8", "-i", "-l", "-d", "-n", "abs(i)", "abs(i8)", "abs(l)", "abs(d)",
    "abs(n)", "abs(w)", "i + j * 2 - 1", "(i + j) * 2", "floor(d)", "ceil(d)", "ceiling(e)",
    "floor(i)", "floor(n)", "ceil(q)", "floor(e)", "round(n)", "round(n, 1)", "round(q, 3)",
    "round(i)", "round(q, 9)", "greatest(i, j)", "least(l, k, 0)", "greatest(d, e)", "least(d, e)",
    "greatest(s, t)", "least(day, until)", "greatest(at, later)", "greatest(n, q)", "least(i, d)",
    "l * 1000", "i * 1.0", "n * 2 + 1", "k * 60 + 1704067200", "1 / 3", "7 div 2", "7 % 0.5e0",
]  # fmt: skip

CASTS = [
    *_fill(
        "CAST({x} AS {y})",
        x=_INTEGERS,
        y=("TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN", "DECIMAL(10,2)",
           "TIMESTAMP", "DECIMAL(38,0)"),
    ),
    *_fill("CAST({x} AS {y})", x=("d", "e"), y=("TINYINT", "INT", "BIGINT", "BOOLEAN", "DOUBLE")),
    *_fill(
        "CAST({x} AS {y})",
        x=("n", "q", "w"),
        y=("TINYINT", "INT", "BIGINT", "BOOLEAN", "STRING", "DECIMAL(38,4)", "DECIMAL(5,1)"),
    ),
    *_fill("CAST({x} AS DOUBLE)", x=("n", "q", "f", "b", "at")),
    *_fill("CAST({x} AS {y})", x=("b",), y=("INT", "BIGINT", "STRING", "TINYINT")),
    *_fill(
        "CAST({x} AS {y})\ntry_cast({x} AS {y})",
        x=("num", "s"),
        y=("TINYINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(12,2)", "BOOLEAN", "DECIMAL(38,10)"),
    ),
    *_fill(
        "CAST({x} AS {y})\ntry_cast({x} AS {y})", x=("moment", "s"), y=("DATE", "TIMESTAMP")
    ),
    *_fill("CAST({x} AS {y})", x=("at",), y=("BIGINT", "INT", "DATE", "STRING", "TIMESTAMP")),
    *_fill("CAST({x} AS {y})", x=("day",), y=("TIMESTAMP", "STRING", "DATE")),
    *_fill("try_cast({x} AS {y})", x=("l", "d", "w"), y=("TINYINT", "INT", "BIGINT")),
    "try_cast(l AS DECIMAL(9,2))", "try_cast(w AS DECIMAL(9,2))",
    "try_cast(at AS INT)", "CAST(s AS BINARY)", "CAST(bin AS STRING)", "bin::string", "i::bigint",
    "CAST(NULL AS INT)", "CAST(NULL AS STRING)", "CAST('12' AS INT)", "CAST(2.5 AS BIGINT)",
    "CAST(-2.5 AS BIGINT)", "CAST('2024-01-01' AS DATE)", "CAST(1 AS TIMESTAMP)", "1L", "1.5BD",
    "CAST(CAST(at AS STRING) AS TIMESTAMP)", "CAST(CAST(day AS STRING) AS DATE)",
    "CAST(CAST(l AS STRING) AS BIGINT)", "CAST(CAST(bin AS STRING) AS INT)",
    "CAST(i / 2 AS BIGINT)", "CAST(l / 3 AS INT)", "CAST(d * 2 AS INT)", "CAST(n * 3 AS INT)",
    "CAST(1.5 AS DECIMAL(3,2))", "CAST(true AS INT)", "CAST(floor(d) AS STRING)",
    "CAST(0.05 AS STRING)", "CAST(CAST(l % 7 AS DECIMAL(9,2)) * 0.01 - 0.5 AS STRING)",
]  # fmt: skip

TEXTS = [
    *_fill(
        "length({x})\ntrim({x})\nltrim({x})\nrtrim({x})\nupper({x})\nlower({x})\nmd5({x})\n"
        "sha2({x}, 256)\nchar_length({x})\nucase({x})\nlcase({x})\nlen({x})",
        x=("s", "t"),
    ),
    *_fill(
        "substring(s, {x})\nsubstring(s, {x}, 2)\nsubstr(s, {x}, 1)\nsubstring(num, {x}, 0)",
        x=("0", "1", "2", "3", "100", "-1", "-3", "-100"),
    ),
    *_fill("left(s, {x})\nright(s, {x})", x=("0", "1", "3", "-1", "100")),
    "substring(s, 1, 19)", "substring(s, 2, -1)", "concat(s, t)", "concat(s, '-', t)", "s || t",
    "concat(s, i)", "concat(NULL, s)", "concat_ws('-', s, t)", "concat_ws(',', s, NULL, t)",
    "replace(s, 'a', 'b')", "replace(s, 'event-', '')", "replace(s, 'ab', t)",
    "startswith(s, 'a')", "endswith(s, 'c')", "contains(s, t)", "contains(s, '')", "s LIKE 'a%'",
    "s LIKE '_'", "s LIKE '%o_'", "s NOT LIKE '%b%'", "s LIKE 'A-1\\\\_b\\\\%c'", "s LIKE ''",
    "s RLIKE '^[a-z]+'", "s RLIKE '[0-9]+$'", "s RLIKE 'a.b'", "s RLIKE '^$'",
    "rlike(s, '[^a-z ]')", "s RLIKE '\\\\d{2}'", "s RLIKE '^(a|b),?'", "regexp_like(s, 'x')",
    "regexp_extract(s, '([0-9]+)')", "regexp_extract(s, '([a-z]+)-([0-9]+)', 2)",
    "regexp_extract(s, '[0-9]+', 0)", "regexp_extract(s, 'event-(.+)', 1)",
    "regexp_extract(s, '(x)?(.)', 1)", "regexp_extract(s, '^(.*)$', 1)",
    "regexp_replace(s, '[^0-9]', '')", "regexp_replace(s, '[0-9]+', '#')",
    "regexp_replace(s, 'a.', 'zz')", "get_json_object(js, '$.id')", "get_json_object(js, '$.at')",
    "get_json_object(js, '$.o.x')", "get_json_object(js, '$.b')", "get_json_object(js, '$.n')",
    "length(bin)", "md5(bin)", "sha2(s, 0)", "coalesce(s, t)", "coalesce(s, t, 'none')",
    "nvl(s, '-')", "ifnull(t, s)", "nullif(s, '')", "nvl2(s, 'yes', 'no')", "nullif(i, 0)",
    "nullif(t, 'x')", "h[0].value", "CAST(h[0].value AS STRING)", "st.b", "mp['k']", "li[0]",
    "li[1]", "upper(trim(s))", "length(concat(s, s))", "concat(upper(t), '-', i)",
    "'a\\nb'", "concat('a', s)", "trim(concat(' ', s))", "lower('ABC')",
]  # fmt: skip

TIMES = [
    *_fill(
        "{f}({x})",
        f=("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "weekofyear", "dayofweek",
           "weekday", "last_day"),
        x=("at", "day"),
    ),
    *_fill("{f}(at)", f=("hour", "minute", "second", "unix_micros", "unix_millis", "unix_seconds")),
    *_fill("timestamp_{f}({x})", f=("seconds", "millis", "micros"),
            x=("i", "l", "k", "1704067200")),
    *_fill(
        "date_trunc('{u}', {x})",
        u=("YEAR", "quarter", "MONTH", "week", "DAY", "hour", "MINUTE", "second"),
        x=("at", "day"),
    ),
    *_fill("trunc({x}, '{u}')", x=("day", "at"), u=("year", "MM", "week", "quarter")),
    *_fill("date_add({x}, {y})\ndate_sub({x}, {y})", x=("day", "at"), y=("1", "j", "-400")),
    *_fill("datediff({x}, {y})", x=("day", "at"), y=("until", "later")),
    *_fill("at {s} INTERVAL '{n}' {u}", s=("+", "-"), n=("1", "90"),
           u=("SECOND", "MINUTES", "HOUR", "DAY")),
    *_fill(
        "date_format({x}, '{p}')",
        x=("at", "day"),
        p=("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "HH:mm", "dd/MM/yyyy", "yyyy", "MM-dd"),
    ),
    *_fill("to_timestamp({x})\nto_date({x})", x=("moment", "day", "at")),
    *_fill(
        "to_timestamp(moment, '{p}')",
        p=("yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd", "yyyyMMdd", "dd.MM.yyyy", "yyyy/MM/dd HH:mm",
           "yyyy"),
    ),
    *_fill("to_date(moment, '{p}')", p=("yyyy-MM-dd", "yyyyMMdd")),
    'to_timestamp(moment, "yyyy-MM-dd\'T\'HH:mm:ss")', "unix_date(day)", "day - INTERVAL 3 HOURS",
    "CAST(at AS DATE) = day", "CASE WHEN b THEN at ELSE later END", "coalesce(at, day)",
    "timestamp_micros(unix_micros(at) + 5000000)", "timestamp_seconds(k * 60 + 1704067200)",
    "timestamp_millis(l div 1000)", "year(day) = 2024 AND month(day) = 2",
    "at - INTERVAL '-5' HOUR",
    "to_timestamp(substring(moment, 1, 19), 'yyyy-MM-dd HH:mm:ss')", "date_diff(day, until)",
    "date_trunc('DD', later)", "CAST(date_format(at, 'yyyyMMdd') AS INT)",
]  # fmt: skip

CHOICES = [
    "CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' ELSE 'z' END", "CASE WHEN b THEN i END",
    "CASE i WHEN 1 THEN 'one' WHEN 7 THEN 'seven' END", "if(b, i, l)", "IF(d > 0, d, 0)",
    "if(b, 1, 2.5)", "CASE WHEN j <> 0 THEN i / j ELSE NULL END", "coalesce(i, j)",
    "coalesce(i, l, 0)", "coalesce(d, 0)", "coalesce(n, 0)", "coalesce(n, q)", "coalesce(NULL, i)",
    "CASE WHEN b THEN day ELSE at END", "CASE WHEN s IS NULL THEN 'none' ELSE s END",
    "nvl(i, 0)", "nvl(d, 1.5)", "coalesce(b, false)", "if(s LIKE '%a%', length(s), -1)",
    "CASE WHEN b THEN NULL ELSE i END", "if(isnull(i), 0, i)",
    "CASE s WHEN 'abc' THEN 1 ELSE 0 END",
    "CASE WHEN try_cast(num AS INT) IS NULL THEN 'bad' ELSE 'good' END", "coalesce(bin, CAST('' AS "
    "BINARY))",
]  # fmt: skip

PROVEN = [*dict.fromkeys([*COMPARISONS, *LOGIC, *ARITHMETIC, *CASTS, *TEXTS, *TIMES, *CHOICES])]
"""All of them, each once."""

UNPROVEN = [
    "from_utc_timestamp(at, 'Europe/Berlin')", "to_utc_timestamp(at, 'Europe/Berlin')",
    "to_utc_timestamp(CAST(moment AS TIMESTAMP), 'America/New_York')", "hash(i)", "xxhash64(s)",
    "CAST(d AS STRING)", "CAST(f AS STRING)", "CAST(d AS DECIMAL(10,2))", "CAST(f AS INT)",
    "CAST(w AS DOUBLE)", "CAST(d AS TIMESTAMP)", "CAST(n AS TIMESTAMP)", "CAST(d AS FLOAT)",
    "round(d, 2)", "round(d)", "bround(n, 1)", "n / q", "n / 3", "n % 2", "w * w", "w + 1.5",
    "sqrt(d)", "exp(d)", "ln(d)", "log10(d)", "pow(d, 2)", "sin(d)", "pmod(i, 3)", "f + 1",
    "f > i", "i = '7'", "num > 5", "s < 5", "concat(s, d)", "concat(s, at)", "substring(s, i, 2)",
    "substring(s, 1, j)", "substring(bin, 1, 2)", "initcap(s)", "reverse(s)", "repeat(s, 2)",
    "lpad(s, 5, '0')", "translate(s, 'ab', 'xy')", "split(s, ',')[0]", "split_part(s, ',', 1)",
    "instr(s, 'a')", "locate('a', s)", "s RLIKE t", "s LIKE t", "'it''s'", "w > 0", "w = q",
    "s RLIKE '(?i)abc'", "s RLIKE 'a+?'",
    "s RLIKE '\\\\s'", "s RLIKE '\\\\bx'", "regexp_extract(s, '([0-9]+)', i)",
    "regexp_replace(s, '[0-9]*', '-')", "regexp_replace(s, '([a-z])', '$1$1')", "s ILIKE 'A%'",
    "s LIKE 'a\\\\b'", "base64(bin)", "hex(i)", "crc32(s)", "date_format(at, 'EEE')",
    "date_format(at, 'yyyy-MM-dd HH:mm:ss.SSS')", "to_timestamp(moment, 'M/d/yyyy')",
    "to_timestamp(moment, 'yyyy-MM-dd HH:mm:ssXXX')", "unix_timestamp(at)",
    "unix_timestamp(moment)",
    "from_unixtime(l)", "add_months(day, 1)", "months_between(day, until)", "next_day(day, 'MO')",
    "make_date(2024, 1, 1)", "at + INTERVAL 1 MONTH", "at + INTERVAL '1 02:00:00' DAY TO SECOND",
    "at - later", "day - until", "day + 1", "timestamp_seconds(d)", "timestamp_seconds(n)",
    "timestamp_millis(d)", "extract(YEAR FROM at)", "trim(BOTH 'x' FROM s)", "size(li)", "li",
    "st", "element_at(li, 1)", "li[j]", "mp[s]", "array(1, 2)", "map('a', 1)", "struct(i, j)",
    "named_struct('a', 1)", "from_json(js, 'id INT')", "get_json_object(js, '$[0]')",
    "transform(li, x -> x + 1)", "i & j", "~i", "i | 1", "X'ff'", "r'a'", "current_date()",
    "current_timestamp()", "rand()", "uuid()", "CAST(s AS FLOAT)", "CAST(bin AS INT)",
    "CAST(at AS DECIMAL(20,6))", "CAST(b AS TIMESTAMP)", "CAST(day AS INT)", "string(i)", "int(s)",
    "date(at)", "ascii(s)", "soundex(s)", "levenshtein(s, t)", "shiftleft(i, 1)", "sign(i)",
    "no_such_function(i)", "no_such_column", "date_trunc('MILLENNIUM', at)", "'a\\qb'",
    "s RLIKE NULL",
    "coalesce(i, s)", "greatest(s, i)", "if(b, i, s)", "CASE WHEN i THEN 1 END", "b + 1", "NOT i",
    "s AND b", "i || j || d", "nullif(i, l)", "12345678901234567890123456789012345678",
]  # fmt: skip
"""Expressions that only Spark evaluates; some of them are none for it either."""
