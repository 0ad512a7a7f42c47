"""Tables of all kinds of keys and names, in one file and one driver, end equal to their tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from hybrid_extensions.cdc.tables.template import Template
from tests.e2e.changes.binlog_case import BinlogCase
from tests.e2e.changes.tables_file import TablesFile

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(2400),
]

# By table: type of the key, and seven of its values.
KEYS: dict[str, tuple[str, Sequence[str]]] = {
    "tinies": ("tinyint", ["-128", "-1", "0", "1", "5", "126", "127"]),
    "unsigned_tinies": ("tinyint unsigned", ["0", "1", "127", "128", "200", "254", "255"]),
    "smalls": ("smallint", ["-32768", "-1", "0", "1", "5", "32766", "32767"]),
    "mediums": ("mediumint unsigned", ["0", "1", "2", "3", "8388608", "16777214", "16777215"]),
    "bigs": (
        "bigint",
        ["-9223372036854775808", "-1", "0", "1", "2", "9223372036854775806", "9223372036854775807"],
    ),
    "unsigned_bigs": (
        "bigint unsigned",
        [
            *("0", "1", "9223372036854775807", "9223372036854775808", "9223372036854775809"),
            *("18446744073709551614", "18446744073709551615"),
        ],
    ),
    "decimals": ("decimal(20,4)", ["-99.5", "-0.0001", "0", "0.0001", "1", "1.5", "1e15"]),
    "wide_decimals": ("decimal(38,0)", ["-1e37", "-1", "0", "1", "2", "1e20", "1e37"]),
    "doubles": ("double", ["-1e300", "-0.1", "0", "1e-300", "0.1", "16777217", "1e300"]),
    "chars": ("char(5)", ["''", "'a'", "'b'", "'c d'", "'é'", "'x'", "'日本'"]),
    "words": ("varchar(20)", ["''", "'a'", "'B'", "'c\\'d'", "'ß'", "'x y'", "'😀'"]),
    "exact_words": (
        "varchar(20) COLLATE utf8mb4_bin",
        ["''", "'a'", "'A'", "'e'", "'é'", "'É'", "'😀'"],
    ),
    "latin_words": (
        "varchar(20) CHARACTER SET latin1",
        ["''", "'a'", "'b'", "'grün'", "'ñ'", "'x'", "'zz'"],
    ),
    "bytes": ("varbinary(8)", ["x''", "x'00'", "x'0000'", "x'01'", "x'7f'", "x'80'", "x'ffff'"]),
    "uuids": ("binary(16)", [f"unhex(left(sha2('{n}', 256), 32))" for n in range(7)]),
    "days": (
        "date",
        [
            *("'1000-01-01'", "'1500-02-28'", "'1969-12-31'", "'1970-01-01'", "'2024-02-29'"),
            *("'2262-04-12'", "'9999-12-31'"),
        ],
    ),
    "moments": (
        "datetime(6)",
        [
            *("'1000-01-01'", "'1500-01-01 00:00:00.000001'", "'1969-12-31 23:59:59.999999'"),
            *("'1970-01-01'", "'2024-02-29 12:34:56.789'", "'2262-04-12'"),
            "'9999-12-31 23:59:59.999999'",
        ],
    ),
    "seconds": (
        "datetime",
        [
            *("'1500-01-01'", "'1969-12-31'", "'1970-01-01'", "'2000-01-01'", "'2024-01-01'"),
            *("'2024-01-01 00:00:01'", "'9999-12-31'"),
        ],
    ),
    "instants": (
        "timestamp(6)",
        [
            *("'1970-01-02'", "'1999-12-31 23:59:59.999999'", "'2000-01-01'", "'2024-01-01'"),
            *("'2024-03-31 01:30:00'", "'2024-10-27 00:30:00'", "'2038-01-19 03:14:07.999999'"),
        ],
    ),
    "spans": (
        "time(3)",
        [
            *("'-838:59:59'", "'-00:00:00.001'", "'00:00:00'", "'00:00:00.5'", "'12:00:00'"),
            *("'24:00:00'", "'838:59:59'"),
        ],
    ),
    "years": ("year", ["1901", "1970", "1999", "2000", "2024", "2154", "2155"]),
    "sorts": ("enum('g','a','f','b','e','c','d')", [f"'{name}'" for name in "gafbecd"]),
    "choices": ("set('z','y','x')", ["''", "'z'", "'y'", "'z,y'", "'x'", "'z,x'", "'z,y,x'"]),
    "bits": ("bit(12)", ["0", "1", "2", "255", "256", "4094", "4095"]),
    "wide_bits": ("bit(64)", ["0", "1", "2", "3", "b'1' << 62", "b'1' << 63", "~0"]),
}
# By table: its columns with `k` and `v`, where more than the type of `k` matters.
WHOLE = {
    "two_parts": "k int, part varchar(9) DEFAULT 'p', v int, PRIMARY KEY (part, k)",
    "falling": "k int, v int, PRIMARY KEY (k DESC)",
    "prefixed": "k varchar(20), v int, PRIMARY KEY (k(3))",
    "unique_alone": "k int NOT NULL UNIQUE, v int",
    "two_unique": "k int NOT NULL, v int, other int NOT NULL DEFAULT 0, UNIQUE (other, k), "
    "UNIQUE (k)",
    "in_the_middle": "v int, k int, w float DEFAULT 0.1, PRIMARY KEY (k)",
}
_WORDS = ["'aaa'", "'bbb'", "'ccc'", "'ddd'", "'eee'", "'fff'", "'ggg'"]
NAMES = [
    *("Order Lines", "größe", "日本語", "it's", 'say "x"', "back`tick", "a.b", "c:d", "e#f"),
    *("100%", "x,y", "g;h", "i+j", "[k]", "l*m", "n/o", "?p", "(q)", "{r}", "s|t", "u\\v", "$w"),
    "UPPER",
]


@pytest.fixture(params=["mysql", "mariadb"])
def case(request: pytest.FixtureRequest) -> BinlogCase:
    made: BinlogCase = request.getfixturevalue(f"{request.param}_case")
    return made


@pytest.fixture
def shop(case: BinlogCase) -> Iterator[TablesFile]:
    database = {"dsn": case.dsn, "connector": case.connector}
    made = TablesFile(case.folder, case.name, database, case.servers, schema=case.name)
    made.document["database"]["chunk_rows"] = 3
    made.write()
    yield made
    made.end()


def test_tables_of_any_key_and_name_equal_their_tables_and_others_are_refused_by_name(
    case: BinlogCase, shop: TablesFile
) -> None:
    tables = {name: f"k {kind}, v int, PRIMARY KEY (k)" for name, (kind, _) in KEYS.items()}
    tables |= WHOLE
    tables |= dict.fromkeys(NAMES, "k int PRIMARY KEY, v int")
    for name, columns in tables.items():
        case.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        case.execute(*(insert(name, at) for at in range(5)))
    # MariaDB has no such keys.
    computed = "v int, k int AS (v + 1) STORED PRIMARY KEY" if "mysql:" in case.dsn else "v int"
    case.execute(f"CREATE TABLE computed ({computed})", "CREATE TABLE keyless (k int, v int)")
    everything = f"{case.name}[.].*"
    case.capture(list(tables), table_include_list=everything, heartbeat_interval_ms="500")
    case.wait_until_confirmed()
    status, text = shop.run("run", str(shop.path))
    assert status == 0, text
    found = Template(shop.path).tables()
    assert found == sorted(f"{case.name}.{name}" for name in tables)
    for name in ("computed", "keyless"):
        assert f"{case.name}.{name}: not captured, as it has no primary key" in text
    for name in tables:
        one, two, three, seven = (value(name, at) for at in (0, 1, 2, 6))
        case.execute(
            insert(name, 5),
            f"UPDATE {quoted(name)} SET v = v + 100 WHERE k = {one}",
            f"DELETE FROM {quoted(name)} WHERE k = {two}",
            f"UPDATE {quoted(name)} SET k = {seven} WHERE k = {three}",
        )
    shop.wait_until_equal(*found)
    status, text = shop.run("compare", str(shop.path))
    assert status == 0, text


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def value(name: str, at: int) -> str:
    """The literal of one of the keys of a table."""
    if name in KEYS:
        return KEYS[name][1][at]
    return _WORDS[at] if name == "prefixed" else str(at)


def insert(name: str, at: int) -> str:
    return f"INSERT INTO {quoted(name)} (k, v) VALUES ({value(name, at)}, {at})"
