"""Tables of one file that are altered where no change reports it: they stop by name, others go on.

The commands are those that people type, and so is the way out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import dagster as dg
import pytest

from hybrid_extensions.compare.dagster import compare_checks
from tests.e2e.changes.binlog_case import BinlogCase
from tests.e2e.changes.cdc_case import CdcCase
from tests.e2e.changes.tables_file import PATIENCE_S, TablesFile
from tests.services.processes import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]
TABLES = ["narrow", "other_key", "plain", "spared", "swapped"]
CREATE = "CREATE TABLE {table} (id int PRIMARY KEY, v int NOT NULL, a numeric(12,4))"
INSERT = "INSERT INTO {table} VALUES (1, 1, 1.2345), (2, 2, 2)"
ALTER = {
    "narrow": {
        "postgres": ["ALTER TABLE narrow ALTER a TYPE numeric(12,1)"],
        "mysql": ["ALTER TABLE narrow MODIFY a decimal(12,1)"],
    },
    "other_key": {
        "postgres": [
            "ALTER TABLE other_key DROP CONSTRAINT other_key_pkey, ADD PRIMARY KEY (id, v)"
        ],
        "mysql": ["ALTER TABLE other_key DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)"],
    },
    # No row has as many digits.
    "spared": {
        "postgres": ["ALTER TABLE spared ALTER a TYPE numeric(11,4)"],
        "mysql": ["ALTER TABLE spared MODIFY a decimal(11,4)"],
    },
    "swapped": {
        "postgres": [
            "ALTER TABLE swapped RENAME TO swapped_old",
            "ALTER TABLE swapped_new RENAME TO swapped",
        ],
        "mysql": ["RENAME TABLE swapped TO swapped_old, swapped_new TO swapped"],
    },
}
LATER = {
    "narrow": "INSERT INTO narrow VALUES (3, 3, 3.3)",
    # Rows that the target would take for one that it has.
    "other_key": "INSERT INTO other_key VALUES (1, 7, 7), (2, 8, 8)",
    "plain": "UPDATE plain SET v = v + 7",
    "swapped": "INSERT INTO swapped VALUES (9, 9, 9)",
}
REPLACED = ("narrow", "other_key", "swapped")
# No log has these, and no catalog shows them.
UNSEEN = {
    "postgres": (
        ["ALTER TABLE plain ALTER v TYPE bigint USING v * 10"],
        '{"id":1} differs in v',
    ),
    "mysql": (
        ["SET sql_log_bin = 0", "DELETE FROM plain WHERE id = 1"],
        '{"id":1} is only in the target',
    ),
}


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def shop(request: pytest.FixtureRequest) -> Iterator[tuple[TablesFile, CdcCase | BinlogCase, str]]:
    if request.param == "postgres":
        of_postgres: CdcCase = request.getfixturevalue("case")
        case: CdcCase | BinlogCase = of_postgres
        database, schema = {"dsn": case.dsn, "slot": case.name}, "public"
    else:
        of_binlog: BinlogCase = request.getfixturevalue(f"{request.param}_case")
        case = of_binlog
        database, schema = {"dsn": case.dsn, "connector": of_binlog.connector}, case.name
    for table in [*TABLES, "swapped_new"]:
        case.execute(CREATE.format(table=table), INSERT.format(table=table))
    if isinstance(case, CdcCase):
        case.capture([f"public.{table}" for table in TABLES], snapshot_mode="no_data")
    else:
        case.capture(TABLES, heartbeat_interval_ms="500", connect_keep_alive_interval_ms="2000")
        case.wait_until_confirmed()
    made = TablesFile(case.folder, case.name, database, case.servers, schema=schema)
    made.document["compare"] = {"cron": "0 2 * * *"}
    made.document["tables"] = {"include": [f"{schema}.{table}" for table in TABLES]}
    made.write()
    yield made, case, schema
    made.end()


def compare_and_resume(file: TablesFile, table: str) -> None:
    """A stopped table of which no row is another one goes on."""
    status, text = file.run("compare", f"{file.path}/{table}")
    assert status == 0, text
    assert re.search(r"no row differs: `\S*hybrid resume ", " ".join(text.split()))
    status, text = file.run("resume", f"{file.path}/{table}")
    assert status == 0, text


def test_altered_tables_stop_by_name_and_the_way_out_makes_them_equal(
    shop: tuple[TablesFile, CdcCase | BinlogCase, str],
) -> None:
    file, case, schema = shop
    names = {table: f"{schema}.{table}" for table in TABLES}
    kind = "postgres" if isinstance(case, CdcCase) else "mysql"
    status, text = file.run("run", str(file.path))
    assert status == 0, text
    case.execute(*(each for ways in ALTER.values() for each in ways[kind]), *LATER.values())

    def health() -> dict[str, str]:
        _, text = file.run("status", str(file.path), "--json")
        answers = json.loads(text)["tables"]
        return {name: answer["live"]["health"] for name, answer in answers.items()}

    expected = {name: "failed" for table, name in names.items() if table != "plain"}
    wait_for(
        lambda: health() == {**expected, names["plain"]: "healthy"}, "four to stop", PATIENCE_S
    )
    wait_for(lambda: not any(file.pid(name) for name in expected), "the end of four", PATIENCE_S)
    file.wait_until_equal(names["plain"])
    assert file.pid(names["plain"]) is not None

    status, text = file.run("status", str(file.path))
    lines = {line.partition(":")[0]: line for line in text.splitlines()}
    assert (status, "has column `a`" in lines[names["narrow"]]) == (1, True)
    assert "has another primary key now: `id`, `v`" in lines[names["other_key"]]
    for table in ALTER:
        assert f"Table `{names[table]}` of the database" in lines[names[table]]
        assert re.search(r"then run `\S*hybrid rerun ", lines[names[table]])
    if kind == "mysql":
        assert "RENAME TABLE swapped TO swapped_old" in lines[names["swapped"]]
    for command in ("resume", "drain"):
        status, text = file.run(command, f"{file.path}/{names['swapped']}")
        assert status != 0, text
    assert "No change event reports" in file.run("resume", f"{file.path}/{names['swapped']}")[1]

    # What the messages say.
    compare_and_resume(file, names["spared"])
    case.execute("UPDATE spared SET v = 5")
    anew = {"snapshot": "again/{schema}.{table}/*.parquet"}
    file.document["tables"]["overrides"] = {names[table]: anew for table in REPLACED}
    file.write()
    if isinstance(case, CdcCase):
        case.republish("public.swapped")
    for table in ("narrow", "other_key"):
        (file.path.parent / f"shop.{names[table]}.yaml").unlink()
    status, text = file.run("tables", str(file.path))
    assert status == 0, text
    for table in REPLACED:
        status, text = file.run(
            "rerun", f"{file.path}/{names[table]}", "--rows-at-least", "0.4", "--by", "Ada"
        )
        assert status == 0, text
    case.execute("UPDATE narrow SET v = 4", "DELETE FROM other_key WHERE v = 7")
    file.wait_until_equal(*names.values())

    # The comparison by schedule finds what nothing else reports.
    [check] = compare_checks(file.load(names["plain"]))

    def compared() -> str:
        result = check()
        assert isinstance(result, dg.AssetCheckResult)
        return f"{result.passed}: {result.description}"

    wait_for(lambda: "True: The whole table was last compared" in compared(), "equal rows", 120)
    statements, difference = UNSEEN[kind]
    case.execute(*statements)
    wait_for(lambda: difference in compared(), "what differs", 240)
    status, text = file.run("status", f"{file.path}/{names['plain']}")
    assert (status, "Compared:" in text) == (1, True), text
