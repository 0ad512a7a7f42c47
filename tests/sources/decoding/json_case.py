"""JSON texts that two parsers may read differently."""

from __future__ import annotations

from hypothesis import strategies as st

COLUMNS = {
    "flag": "boolean",
    "small": "tinyint",
    "whole": "int",
    "id": "bigint",
    "ratio": "double",
    "price": "decimal(9,2)",
    "name": "string",
    "day": "date",
    "at": "timestamp",
}
# Texts of each type as any topic contains them.
PLAIN = {
    "boolean": ["true", "false", "null"],
    "tinyint": ["0", "-128", "127", "null"],
    "int": ["0", "-2147483648", "2147483647", "null"],
    "bigint": ["0", "-0", "-9223372036854775808", "9223372036854775807", "null"],
    "double": ["0.5", "7", "0", "-0.25", "1e3", "2.5E-7", "1.7976931348623157e308", "null"],
    "decimal(9,2)": ["0.25", "12.5", "7", "-1234567.89", '"3.25"', "1e2", "null"],
    "string": ['""', '"a"', '"\\u00e4 \\n \\ud83d\\ude00"', '"ä"', '"\\u0000"', "null"],
    "date": ['"2024-02-29"', '"1969-12-31"', '"0001-01-01"', '"9999-12-31"', "null"],
    "timestamp": [
        '"2024-01-01T00:00:00Z"',
        '"2024-01-01 00:00:00Z"',
        '"2024-01-01T00:00:00"',
        '"2024-01-01T00:00:00.5"',
        '"2024-01-01T00:00:00.123456Z"',
        '"2024-01-01T00:00:00.123+02:00"',
        '"2024-01-01 23:59:59-17:59"',
        '"1969-12-31T23:59:59.999999Z"',
        '"0001-01-01T00:00:00Z"',
        "null",
    ],
}
_NUMBERS = [
    *[
        "-0",
        "-0.0",
        "-0e5",
        "01",
        "+1",
        "1.",
        ".5",
        "1e400",
        "-1e400",
        "1e-400",
        "-1e-400",
        "5e-324",
    ],
    *["1.0", "1e0", "1E2", "1e+2", "1e", "0x1F", "1_000", "1,000", "1f", "1L", "--1", "- 1"],
    *["128", "-129", "255", "256", "2147483648", "9223372036854775808", "-9223372036854775809"],
    *["12345678901234567890", "0.1234567890123456789", "9007199254740993", "2.675", "1.005"],
    *["9999999.99", "10000000", "0.001", "0.005", "1e-3", "100e-4", "1e7", "1e1000", "1e-1000"],
    *["NaN", "Inf", "-Inf", "Infinity", "-Infinity", "+Infinity", "INF", "nan", "inf", "-NaN"],
    *["9" * 299, "9" * 1100, "0." + "1" * 1100, "0." + "1" * 200, "1" + "0" * 308, "1" + "0" * 309],
]
_WORDS = ["true", "false", "TRUE", "True", "t", "null", "NULL", "none", "undefined", "1", "0", ""]
_NESTED = ["[]", "[1]", "{}", '{"a": 1}', '[{"a": [null]}]', "[" * 999 + "]" * 999, "[1,]", '{"a"}']
_STRINGS = [
    *['"', '"a', "'a'", '"a\nb"', '"a\tb"', '"a\x00b"', '"\\x41"', '"\\', '"\\u12"', '"\\ud800"'],
    *[
        '"\\ud800\\ud800"',
        '"\\udc00"',
        '"\x7f"',
        '"\ufeff"',
        '"\u2028"',
        '"a" "b"',
        '"a",',
        '"\\/"',
    ],
    *['"true"', '"1"', '"1.5"', '" 1.5"', '"1.5 "', '"+1.5"', '"1."', '".5"', '"1e2"', '"1,000.5"'],
    *['"NaN"', '"Infinity"', '"-Infinity"', '"INF"', '"0x1F"', '"1_0"', '"1.234"', '"99999999.99"'],
]
_DATES = [
    *["2024-02-30", "2023-02-29", "2024-1-1", "2024-01", "2024", "24-01-01", "+2024-01-01"],
    *["-2024-01-01", "0000-01-01", "12024-01-01", " 2024-01-01", "2024-01-01 ", "2024/01/01"],
    *["2024-01-01T", "2024-001", "20240101", "1582-10-10", "2024-13-01", "2024-00-01", "epoch"],
    *["2024-01-0a", "2024-01-01x", "1900-02-29", "now", "today"],
]
_CLOCKS = [
    *["00", "00:00", "00:00:00", "0:0:0", "24:00:00", "23:59:60", "12:60:00", "1:02:03", "00:00:0"],
    *["00:00:00.", "00:00:00.1", "00:00:00.1234567", "00:00:00.123456789", "00:00:00,5", "000000"],
    *["00:00:00.1234567890", "12:00:00 ", "12:00:00 PM", "00:00:00.000000", "00:00:"],
]
_ZONES = [
    *[
        "",
        "Z",
        "z",
        " Z",
        "+00",
        "+0",
        "+0000",
        "+00:00",
        "-00:00",
        "+01:30",
        "+1:30",
        "+5",
        "-0800",
    ],
    *["+17:59", "+18:00", "-18:00", "+18:01", "+19:00", "+23:59", "+24:00", "+00:60", "+00:00:30"],
    *[
        "UTC",
        " UTC",
        "GMT",
        "UTC+1",
        "Europe/Berlin",
        " Europe/Berlin",
        "CET",
        "[UTC]",
        "Z[UTC]",
        "ZZ",
    ],
]
_INSTANTS = [
    *(f"2024-01-01{between}{clock}" for between in "T t" for clock in _CLOCKS),
    *(
        f"2024-01-01T{clock}{zone}"
        for clock in ("00:00:00", "00:00", "12:00:00.5", "00")
        for zone in _ZONES
    ),
    *(f"{day}T00:00:00Z" for day in _DATES),
    *["1704067200", "1704067200000", "T00:00:00Z", "00:00:00", "2024-01-01TT00:00:00Z"],
]
UNUSUAL = [
    *_NUMBERS,
    *_WORDS,
    *_NESTED,
    *_STRINGS,
    *(f'"{each}"' for each in [*_DATES, *_INSTANTS]),
]
"""Texts of one member, most of which are invalid for every type."""

_MEMBERS = '"id": 1, "name": "a"'
UNUSUAL_VALUES: list[bytes | None] = [
    *(
        text.encode()
        for text in [
            *[
                "",
                " ",
                "{",
                "}",
                "{}",
                " {}",
                "{} ",
                "\t{}",
                "{}\n",
                "{}\r\n",
                "\ufeff{}",
                "null",
                "[]",
            ],
            *["1", '"a"', "true", "[{}]", "{}{}", "{},{}", "{} {}", "{}\n{}", "{}null{}", "null{}"],
            *[
                "{}[]{}",
                '{}"}',
                '{}"{}"{}',
                "{]}",
                "{,}",
                '{"id"}',
                '{"id":}',
                '{"id" 1}',
                "{id: 1}",
            ],
            *["{'id': 1}", '{"id": 1,}', '{"id": 1 "name": "a"}', '{"id": 1,, "name": "a"}'],
            *[f"{{{_MEMBERS}", f"{_MEMBERS}}}", f"{{{_MEMBERS}}}}}", f"{{{{{_MEMBERS}}}"],
            *['{"id": 1, "id": 2}', '{"id": null, "id": 2}', '{"id": 1, "id": null}'],
            *['{"more": 1, "more": "a"}', '{"ID": 1}', '{"i\\u0064": 1}', '{"id ": 1}', '{"": 1}'],
            *['{"id": 1} // more', '{"id": 1 /* more */}', '{"id": 1}#', '# {"id": 1}'],
            *[
                '{"more": Inf}',
                '{"more": NaN}',
                '{"more": -Inf}',
                '{"more": [1,Inf]}',
                '{"more":\tInf}',
            ],
            *['{"more": Infinity}', '{"more": "see Information"}', '{"more": "a: Inf"}'],
            *[
                '{"more": 01}',
                '{"more": 1.}',
                '{"more": tru}',
                '{"more": nul}',
                '{"more": "\\ud800"}',
            ],
            *['{"more": "\\x"}', '{"more": "a\nb"}', "{\"more\": 'a'}", '{"more": [1,]}'],
            *[
                f'{{"more": {"[" * n}{"]" * n}}}'
                for n in (10, 899, 950, 998, 999, 1000, 1001, 5000)
            ],
            *[
                f'{{"more": {chr(123)}{chr(34)}a{chr(34)}: ' * n + "1" + "}" * (2 * n)
                for n in (5, 800)
            ],
            *[f'{{"more": {"9" * n}}}' for n in (100, 299, 301, 999, 1000, 1001, 5000)],
            *[f'{{"more": 0.{"9" * n}}}' for n in (100, 299, 998, 1000)],
            *[f'{{"{"n" * n}": 1}}' for n in (1000, 49_000, 50_000, 50_001, 60_000)],
            *[f'{{"name": "{"n" * n}"}}' for n in (1000, 40_000, 60_000)],
        ]
    ),
    *[None, b"\0", b'{"id": 1}\0', b'{"id": 1\0}', b"\xff", b'{"name": "\xff"}', b'{"\xff": 1}'],
    *[b'{"name": "\xc3"}', b'{"name": "\xed\xa0\x80"}', b'{"name": "\xf4\x90\x80\x80"}'],
    *[b'{"more": "\xc0\x80"}', '{"id": 1}'.encode("utf-16"), '{"id": 1}'.encode("utf-16-le")],
]
"""Whole values, few of them objects."""


def documents() -> st.SearchStrategy[bytes]:
    """Return a strategy of objects with the columns above, most of them damaged in some way."""
    texts = st.sampled_from([*UNUSUAL, *(text for plain in PLAIN.values() for text in plain)])
    members = st.tuples(st.sampled_from([*COLUMNS, "more"]), texts)
    space = st.sampled_from(["", "", "", " ", "\n"])
    whole = st.builds(
        lambda pairs, gap: "{" + f",{gap}".join(f'"{a}":{gap}{b}' for a, b in pairs) + "}",
        st.lists(members, max_size=3),
        space,
    )
    piece = st.sampled_from(["{", "}", '"', ",", ":", "[", "]", "\n", " ", "\\", "null", "1", "{}"])
    damaged = st.builds(
        lambda text, at, cut, new: (
            text[: at % (len(text) + 1)] + new + text[at % (len(text) + 1) + cut :]
        ),
        whole,
        st.integers(0, 200),
        st.integers(0, 2),
        piece,
    )
    return st.one_of(whole, damaged).map(str.encode)
