"""All tables of a database in one file: each equals its table, and each cut is one commit.

The commands are those that people type; the tables are compared with the database's own dump.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

pytest.importorskip("hybrid_extensions.cuts", reason="it publishes cuts")

from examples.transfers import MAKE_MARIADB, TABLES, Transfers, broken
from hybrid_extensions.cdc.tables.dagster import template_definitions
from hybrid_extensions.cdc.tables.template import Template
from hybrid_extensions.cuts.members import load_group
from hybrid_extensions.cuts.publisher import publish
from hybrid_extensions.cuts.table import Cut, list_cuts, read_cut
from tests.e2e.changes.binlog_case import BinlogCase
from tests.e2e.changes.tables_file import TablesFile
from tests.hybrid_extensions.cuts.cut_contents import content, is_torn, note
from tests.services.processes import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
]
CUTS = 6


@pytest.fixture(params=["mariadb", "mysql"])
def case(request: pytest.FixtureRequest) -> BinlogCase:
    made: BinlogCase = request.getfixturevalue(f"{request.param}_case")
    made.execute(*MAKE_MARIADB)
    return made


@pytest.fixture
def shop(case: BinlogCase) -> Iterator[TablesFile]:
    database = {"dsn": case.dsn, "connector": case.connector}
    made = TablesFile(case.folder, case.name, database, case.servers, schema=case.name)
    made.document["cuts"] = {"path": "cuts", "every": "1 s"}
    made.write()
    yield made
    made.end()


def test_tables_under_transfers_end_equal_and_every_cut_is_the_database_at_one_commit(
    case: BinlogCase, shop: TablesFile
) -> None:
    heartbeats = {"heartbeat_interval_ms": "500", "connect_keep_alive_interval_ms": "2000"}
    case.capture(list(TABLES), **heartbeats)
    case.wait_until_confirmed()
    tables = [f"{case.name}.{name}" for name in TABLES]
    cuts: list[Cut] = []
    given_up: list[str] = []
    torn: list[bool] = []
    with Transfers(case.dsn, 4, pause_s=0.1) as transfers:
        status, text = shop.run("run", str(shop.path))
        assert status == 0, text
        assert len({shop.pid(table) for table in tables} - {None}) == 1
        group = load_group([shop.path])
        while len(cuts) < CUTS and len(given_up) < 5 * CUTS:
            note(publish(group, 120), cuts, given_up)
            torn.append(is_torn(group, case.name))
    # The database is quiet from here on.
    publish_in_dagster(shop)
    last = read_cut(group.folder)
    print(  # noqa: T201 - figures for the documentation
        f"{len(cuts) + 1} cuts, {len(given_up)} attempts given up, {transfers.committed} "
        f"transactions; newest versions torn in {sum(torn)} of {len(torn)} looks: {given_up}"
    )
    assert len(cuts) == CUTS, given_up
    kept = list_cuts(group.folder)
    assert [each.number for each in kept] == list(range(1, CUTS + 2))
    assert broken(group, kept, case.name) == {}
    assert content(group, last, case.name) == content_of_database(case)
    sizes = [len(content(group, each, case.name)["transfers"]) for each in kept]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]

    shop.wait_until_equal(*tables)
    status, text = shop.run("compare", str(shop.path))
    assert status == 0, text
    status, text = shop.run("cut", str(shop.path))
    assert (status, len(re.findall(r" 0-1-\d+| binlog\.\d+:\d+", text))) == (0, 1), text


def publish_in_dagster(shop: TablesFile) -> None:
    """Look as Dagster's sensor does, until it has published a cut."""
    definitions = template_definitions(Template(shop.path))
    sensor = definitions.resolve_sensor_def(f"{shop.document['name']}_cuts")
    cursors: list[str | None] = [None]

    def is_published() -> bool:
        with dg.DagsterInstance.ephemeral() as instance:
            context = dg.build_sensor_context(instance=instance, cursor=cursors[-1])
            found = sensor(context)
        assert isinstance(found, dg.SensorResult)
        cursors.append(found.cursor)
        return bool(found.asset_events)

    wait_for(is_published, "a cut by the sensor", 120)


def content_of_database(case: BinlogCase) -> dict[str, list[tuple[Any, ...]]]:
    found = {}
    with case.server.connect(case.name) as connection, connection.cursor() as cursor:
        for name, columns in TABLES.items():
            cursor.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY id")
            found[name] = list(cursor.fetchall())
    return found
