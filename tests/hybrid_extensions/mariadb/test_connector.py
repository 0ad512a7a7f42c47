"""What a connector has read of a binary log, and whether the server still has the rest."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hybrid_extensions.mariadb.log import connector
from hybrid_extensions.mariadb.log.connector import ReadUpTo, ask_connector
from hybrid_extensions.mariadb.log.gtid import Gtid
from sources.errors import InputError
from tests.services.connect_worker import FAILED, RUNNING, worker

NOWHERE: Any = None
"""No connection to a database: Kafka Connect is asked."""
# As Debezium's MariaDB connector 3.5.0 and Kafka Connect 4.3.1 answer.
OFFSETS = {
    "offsets": [
        {
            "partition": {"server": "shop"},
            "offset": {
                "file": "binlog.000003",
                "pos": 23825,
                "gtids": "0-1-129",
                "server_id": 1,
                "event": 3,
            },
        }
    ]
}
GTID_SET = "0a7f6a3c-8f0e-11f0-9a3e-0242ac110002:1-23"
MYSQL = {"offsets": [{"partition": {}, "offset": {"file": "mysql-bin.000007", "pos": 4}}]}
MYSQL_GTIDS = {"offsets": [{"offset": {"file": "mysql-bin.000007", "pos": 4, "gtids": GTID_SET}}]}


@pytest.mark.parametrize(
    ("status", "offsets", "found"),
    [
        (RUNNING, OFFSETS, ReadUpTo(True, 3, 23825, [Gtid(0, 1, 129)])),
        (FAILED, MYSQL, ReadUpTo(False, 7, 4, [], failure="no reason is reported")),
        (RUNNING, MYSQL_GTIDS, ReadUpTo(True, 7, 4, [], GTID_SET)),
        (RUNNING, {"offsets": []}, ReadUpTo(True, None, 0, [])),
        (None, OFFSETS, "Kafka Connect answers 404 (Not Found)"),
        ({}, OFFSETS, "Kafka Connect's answer is not that of a connector of MariaDB or MySQL"),
    ],
)
def test_a_connectors_place_is_read_from_kafka_connect(
    status: Any, offsets: Any, found: ReadUpTo | str
) -> None:
    with worker({"/connectors/shop/status": status, "/connectors/shop/offsets": offsets}) as url:
        assert ask_connector(url) == found


def reader(url: str) -> Any:
    """A table whose snapshot needs a connector that reads."""
    return SimpleNamespace(options=SimpleNamespace(connector=url), source="snapshot", name="shop.t")


def test_a_snapshot_waits_for_the_first_position_that_kafka_connect_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: dict[str, Any] = {
        "/connectors/shop/status": RUNNING,
        "/connectors/shop/offsets": {"offsets": []},
    }
    asking, waited, sleep = threading.current_thread(), [], time.sleep

    def keep(seconds: float) -> None:
        # Threads of other tests may sleep, too.
        if threading.current_thread() is not asking:
            return sleep(seconds)
        waited.append(seconds)
        answers["/connectors/shop/offsets"] = OFFSETS
        return None

    monkeypatch.setattr("time.sleep", keep)
    with worker(answers) as url:
        connector.require_reader(NOWHERE, reader(url))
    assert len(waited) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            RUNNING,
            "Kafka Connect has kept no position of it within 0 s: changes until it reads would be",
        ),
        (FAILED, r"is FAILED \(no reason is reported\): changes until it reads would be missing"),
        (None, "is not known to run: Kafka Connect answers 404"),
    ],
)
def test_a_snapshot_before_the_connector_reads_is_refused(
    monkeypatch: pytest.MonkeyPatch, status: Any, said: str
) -> None:
    monkeypatch.setattr(connector, "FIRST_S", 0.0)
    answers = {"/connectors/shop/status": status, "/connectors/shop/offsets": {"offsets": []}}
    with worker(answers) as url, pytest.raises(InputError, match=said):
        connector.require_reader(NOWHERE, reader(url))
