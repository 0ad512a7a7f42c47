"""A follower of real sinks that is killed right before, or right after, a delivery is kept."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from deltalake import DeltaTable

from hybrid_extensions.servers.redis_server import LocalRedis
from tests.hybrid_extensions.feeds.feed_case import FeedCase, row

pytestmark = [pytest.mark.crash, pytest.mark.slow]
KILLS = int(os.environ.get("HYBRID_KILLS", "4"))
SEED = int(os.environ.get("HYBRID_SEED", str(random.randrange(1000))))
ROWS = 200
# A process that follows both feeds until it ends at one of the two instants.
FOLLOW = """
import os
import random
import signal
import sys
import threading
from pathlib import Path

from hybrid_extensions.feeds.declare import feeds_of
from hybrid_extensions.feeds.kept.kept_table import KeptTable
from hybrid_extensions.feeds.delivery_loop import follow
from sources.config.loader import load_pipeline

append, chance = KeptTable.append, random.Random(int(sys.argv[2]))

def ends(*given):
    when = chance.choice(["before", "after", "never"])
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    append(*given)
    if when == "after":
        os.kill(os.getpid(), signal.SIGKILL)

KeptTable.append = ends
loaded = load_pipeline(Path(sys.argv[1]))
for each in follow(loaded, feeds_of(loaded), threading.Event(), print):
    each.join()
"""


class Both(FeedCase):
    """A pipeline that feeds PostgreSQL and Redis, and keeps what both got."""

    def __init__(self, folder: Path, dsn: str, server: LocalRedis) -> None:
        self.dsn, self.prefix = dsn, f"{uuid.uuid4().hex[:8]}:"
        self.client = redis.Redis.from_url(
            server.url, password=server.password, decode_responses=True
        )
        table = {"name": "serving", "type": "postgres", "dsn": dsn, "table": "delays"}
        keys = {"name": "keys", "type": "redis", "url": server.url, "prefix": self.prefix}
        super().__init__(
            folder,
            {**table, "password_variable": "SERVING_PASSWORD", "keep": {"path": "kept_serving"}},
            {**keys, "password_variable": "KEYS_PASSWORD", "keep": {"path": "kept_keys"}},
        )

    def delivered(self) -> dict[str, int]:
        """The versions of the target that the sinks themselves say that they have."""
        found = {}
        password = os.environ["SERVING_PASSWORD"]
        with psycopg.connect(self.dsn, password=password) as connection:
            there = connection.execute("SELECT to_regclass('hybrid_feeds')::text").fetchone()
            if there != (None,):
                row = connection.execute("SELECT position FROM hybrid_feeds").fetchone()
                if row and row[0]:
                    found["serving"] = json.loads(row[0])["number"]
        text = self.client.hget(f"hybrid-feed:{self.prefix}", "delivered")
        if text:
            found["keys"] = json.loads(str(text))["number"]
        return found


def test_each_delivery_that_reached_a_sink_is_kept_once(
    tmp_path: Path, database: str, redis_server: LocalRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYS_PASSWORD", redis_server.password)
    chance = random.Random(SEED)
    case = Both(tmp_path, database, redis_server)
    case.write(row(n) for n in range(ROWS))
    seen: dict[str, set[int]] = {"serving": set(), "keys": set()}
    for kill in range(KILLS):
        log = tmp_path / f"log-{kill}"
        with log.open("w") as output:
            words = [sys.executable, "-c", FOLLOW, str(case.path), str(SEED + kill)]
            process = subprocess.Popen(words, stdout=output, stderr=output)
        while process.poll() is None:
            change(case, chance)
        assert process.returncode == -signal.SIGKILL, log.read_text()
        for name, version in case.delivered().items():
            seen[name].add(version)
        if kill == KILLS // 2:
            case.own("second")
    for number in (0, 1):
        case.deliver(number)
    for name, version in case.delivered().items():
        seen[name].add(version)
    for name, versions in seen.items():
        kept = replayed(case, tmp_path / f"kept_{name}")
        assert versions <= set(kept), (SEED, name)


def replayed(case: Both, path: Path) -> list[int]:
    """The versions of all kept deliveries: after each the sink has the target of that version."""
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    numbers = sorted({each["feed_delivery"] for each in rows})
    assert numbers == list(range(1, len(numbers) + 1)), SEED
    state: dict[tuple[int, str], int] = {}
    versions: list[int] = []
    end = datetime.min.replace(tzinfo=UTC)
    for number in numbers:
        own = [each for each in rows if each["feed_delivery"] == number]
        keys = [(each["id"], each["part"]) for each in own]
        assert len(keys) == len(set(keys)), (SEED, number)
        (about,) = {
            tuple(each[f"feed_{name}"] for name in ("version", "kind", "begun_at", "delivered_at"))
            for each in own
        }
        version, kind, begun, delivered = about
        assert end <= begun <= delivered, (SEED, number)
        end = delivered
        if kind == "load":
            state = {}
        for key, each in zip(keys, own, strict=True):
            if each["feed_is_deleted"]:
                del state[key]
            else:
                assert each["feed_is_new"] in {None, key not in state}, (SEED, number)
                state[key] = each["n"]
        assert state == target(case, version), (SEED, number)
        versions.append(version)
    assert versions == sorted(versions)
    return versions


def target(case: Both, version: int) -> dict[tuple[int, str], Any]:
    """The values of a version of the target, by key."""
    rows = DeltaTable(case.target, version=version).to_pyarrow_table(columns=["id", "part", "n"])
    return {(each["id"], each["part"]): each["n"] for each in rows.to_pylist()}


def change(case: FeedCase, chance: random.Random) -> None:
    """One commit that changes rows, some of them back to what they were."""
    if chance.randrange(5):
        some = chance.sample(range(ROWS), ROWS // 4)
        case.write(row(n, chance.randrange(3)) for n in some)
    else:
        case.write([row(ROWS + 1, chance.randrange(3))])
        case.delete(f"id % 20 = {chance.randrange(20)}")
