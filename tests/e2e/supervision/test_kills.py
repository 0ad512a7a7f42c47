"""Whatever is killed, and whenever: run again, the table is exact.

``HYBRID_KILLS`` says how many kills (``make crash``: 100), ``HYBRID_SEED`` which ones, and
``HYBRID_STORE`` where state, checkpoint and table are: ``disk``, ``hdfs``, ``s3``, a store that
answers one request after the other, ``versitygw``, one that answers many at once, or ``lossy-s3``,
one that loses and repeats requests. Without it: on ``disk``, and in ``versitygw``.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.case import wrong
from tests.e2e.kills import Broker, Chain, report
from tests.services.lake import Kind, lake

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.crash,
]
KILLS = int(os.environ.get("HYBRID_KILLS", "2"))
SEED = int(os.environ.get("HYBRID_SEED", "7"))
STORES = [name] if (name := os.environ.get("HYBRID_STORE")) else ["disk", "versitygw"]
OF_ONE_CHAIN = 6


@pytest.mark.timeout(1800 + 300 * KILLS)
@pytest.mark.parametrize("store", STORES)
def test_killed_at_any_instant_the_chain_ends_in_an_exact_table(
    tmp_path: Path, store: Kind
) -> None:
    chance = random.Random(SEED)
    hits: Counter[tuple[str, str]] = Counter()
    bad: Counter[str] = Counter()
    chains = 0
    with ExitStack() as stack:
        broker = Broker(tmp_path / "broker")
        stack.callback(broker.stop)
        move = stack.enter_context(lake(store, tmp_path))
        while hits.total() < KILLS:
            folder = tmp_path / f"chain-{chains}"
            folder.mkdir()
            chain = Chain(folder, broker, chance, "rows" if chains % 2 else "windows", move)
            try:
                kills = min(OF_ONE_CHAIN, KILLS - hits.total())
                while chain.hits.total() < kills - max(kills // 3, 1):
                    chain.kill()
                while chain.hits.total() < kills:
                    chain.kill_in_rerun()
                found = chain.finish()
            finally:
                chain.end()
            chains += 1
            hits.update(chain.hits)
            bad.update(wrong(found))
            assert found.expected > 0
            table = report(hits, bad, chains, store, SEED)
            sys.stderr.write(f"\n{table}\n")
            assert not bad, f"seed {SEED}, chain {chains}: {found}"
