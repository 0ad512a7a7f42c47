"""A follower that is killed in the midst of deliveries, while the table goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from psycopg.rows import dict_row

from hybrid_extensions.servers.redis_server import LocalRedis
from tests.hybrid_extensions.feeds.feed_case import SCHEMA, FeedCase, from_texts, row
from tests.hybrid_extensions.feeds.test_kafka import Topic
from tests.services.processes import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.slow]
KILLS = int(os.environ.get("HYBRID_KILLS", "3"))
SEED = int(os.environ.get("HYBRID_SEED", str(random.randrange(1000))))
ROWS = 3000
HYBRID = str(Path(sys.prefix) / "bin" / "hybrid")
# It stores the version with its effects, and notices a call that is repeated in another form.
CODE = """
import hashlib
import sqlite3
from pathlib import Path

store = sqlite3.connect(Path(__file__).parent / "store.db", check_same_thread=False)
store.execute("CREATE TABLE IF NOT EXISTS rows (key TEXT PRIMARY KEY, row TEXT, load INT)")
store.execute(
    "CREATE TABLE IF NOT EXISTS calls (version INT, is_load INT, part INT, digest TEXT, "
    "times INT, PRIMARY KEY (version, is_load, part))"
)
store.commit()

def remember(rows, delivery):
    import json
    texts = [json.dumps(each, default=str) for each in rows.to_pylist()]
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()
    call = (delivery.version, delivery.is_load, delivery.part)
    with store:
        known = store.execute(
            "SELECT digest FROM calls WHERE (version, is_load, part) = (?, ?, ?)", call
        ).fetchone()
        store.execute(
            "INSERT INTO calls VALUES (?, ?, ?, ?, 1) "
            "ON CONFLICT DO UPDATE SET times = times + 1", (*call, digest)
        )
        if known is not None:
            assert known[0] == digest or delivery.is_load, call
        if delivery.is_load and delivery.part == 0:
            store.execute("UPDATE rows SET load = 0")
        for each in rows.to_pylist():
            key = f"{each['id']}:{each['part']}"
            if each.pop("_is_deleted"):
                store.execute("DELETE FROM rows WHERE key = ?", (key,))
            else:
                store.execute(
                    "INSERT OR REPLACE INTO rows VALUES (?, ?, 1)", (key, json.dumps(each["n"]))
                )
        if delivery.is_load and delivery.is_last:
            store.execute("DELETE FROM rows WHERE load = 0")
"""


class AllFeeds(Topic):
    """A pipeline that feeds one sink of each kind."""

    def __init__(self, folder: Path, servers: str, dsn: str, server: LocalRedis) -> None:
        (folder / "noted.py").write_text(CODE)
        self.dsn, self.prefix = dsn, f"{uuid.uuid4().hex[:8]}:"
        self.client = redis.Redis.from_url(
            server.url, password=server.password, decode_responses=True
        )
        super().__init__(folder, servers)
        self.declare(
            self.feed,
            {
                "name": "serving",
                "type": "postgres",
                "dsn": dsn,
                "table": "delays",
                "password_variable": "SERVING_PASSWORD",
            },
            {
                "name": "keys",
                "type": "redis",
                "url": server.url,
                "prefix": self.prefix,
                "password_variable": "KEYS_PASSWORD",
            },
            {"name": "own", "type": "python", "function": "noted:remember"},
        )

    def table_rows(self) -> list[dict[str, Any]]:
        password = os.environ["SERVING_PASSWORD"]
        with psycopg.connect(self.dsn, password=password, row_factory=dict_row) as connection:
            return connection.execute(f"SELECT {', '.join(SCHEMA.names)} FROM delays").fetchall()

    def key_rows(self) -> list[dict[str, Any]]:
        names = self.client.scan_iter(f"{self.prefix}*")
        return [from_texts(self.client.hgetall(name)) for name in names]  # type: ignore[arg-type]


def test_after_any_kill_each_sink_has_exactly_the_last_value_of_each_key(
    tmp_path: Path,
    servers: str,
    database: str,
    redis_server: LocalRedis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEYS_PASSWORD", redis_server.password)
    chance = random.Random(SEED)
    case = AllFeeds(tmp_path, servers, database, redis_server)
    case.write(row(n) for n in range(ROWS))
    begun = subprocess.run(
        [HYBRID, "feed", str(case.path), "--once"], capture_output=True, check=False
    )
    assert begun.returncode == 0, begun.stderr.decode()
    for kill in range(1, KILLS + 1):
        log = tmp_path / f"log-{kill}"
        with log.open("w") as output:
            process = subprocess.Popen([HYBRID, "feed", str(case.path)], stderr=output)
        # From its first delivery on it always has something to deliver.
        wait_for(partial(_has_delivered, log), "a delivery", 60)
        end = time.monotonic() + chance.uniform(0, 2)
        while time.monotonic() < end:
            _change(case, chance)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, log.read_text()
        if kill == KILLS // 2:
            case.own("second")
    done = subprocess.run(
        [HYBRID, "feed", str(case.path), "--once", "--json"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert case.difference(case.table_rows()) == [], SEED
    assert case.difference(case.key_rows()) == [], SEED
    assert case.last_rows() == case.expected()
    rows = case.table.to_pyarrow_table().to_pylist()
    with sqlite3.connect(tmp_path / "store.db") as store:
        kept = dict(store.execute("SELECT key, row FROM rows").fetchall())
    assert kept == {f"{each['id']}:{each['part']}": json.dumps(each["n"]) for each in rows}
    again = subprocess.run(
        [HYBRID, "feed", str(case.path), "--once", "--json"], capture_output=True, check=True
    )
    feeds = json.loads(again.stdout)["feeds"]
    assert {each["kind"] for each in feeds.values()} == {"none"}


def _has_delivered(log: Path) -> bool:
    return "version" in log.read_text()


def _change(case: FeedCase, chance: random.Random) -> None:
    """One commit: many rows change, some of them back to what they were."""
    match chance.randrange(6):
        case 0:
            case.delete(f"id % 50 = {chance.randrange(50)}")
        case 1:
            case.table.optimize.compact()
        case _:
            version = chance.randrange(3)
            case.write(row(n, version) for n in chance.sample(range(ROWS), ROWS // 3))
