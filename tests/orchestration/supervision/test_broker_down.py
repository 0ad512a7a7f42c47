"""A broker that does not answer: the verdict names it, only warns at first, and comes soon."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.supervision.card import card
from orchestration.supervision.live_look import Look
from orchestration.supervision.rules.verdict import Verdict
from orchestration.supervision.status import status
from orchestration.supervision.supervisor import Tick, decide, tick
from orchestration.supervision.watch_memory import write_watch
from sources.common.times import now_ms
from sources.kafka.client.kafka_log import TIMEOUT_S
from tests.orchestration.supervision.live_case import DISK_FULL, LiveCase
from tests.sources.kafka.waits import noted_waits


@pytest.fixture
def servers() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{reserved.getsockname()[1]}"


@pytest.fixture
def case(tmp_path: Path, servers: str) -> LiveCase:
    topic = {
        "type": "kafka",
        "name": "inbox",
        "topic": "orders",
        "bootstrap_servers": servers,
        "schema": {"id": "bigint", "at": "timestamp"},
    }
    made = LiveCase(tmp_path, inbox=topic)
    made.ask_for_it()
    made.launch("a", batch_id=1, splits_done=None, splits_total=None)
    return made


def look(case: LiveCase) -> Verdict:
    with case.alive():
        found = tick(case.loaded)
    assert found is not None
    return found.verdict


def test_the_verdict_names_the_broker_and_the_way_out_and_warns(
    case: LiveCase, servers: str
) -> None:
    verdict = look(case)
    assert verdict.health == "catching-up"
    [lag] = [each for each in verdict.findings if each.name == "lag"]
    assert (lag.passed, lag.is_pending, lag.value) == (False, True, None)
    assert lag.text.startswith(
        f"How much input waits is unknown: The Kafka broker {servers} can't be reached: Connection "
        "refused. Start the broker"
    )
    assert lag.text in verdict.reason
    assert "waiting_s" not in verdict.numbers


def test_a_driver_that_waits_for_the_broker_is_not_stuck_and_the_broker_is_named(
    case: LiveCase, servers: str
) -> None:
    old_ms = now_ms() - 120_000
    case.launch("a", batch_id=1, idle=False, advanced_at_ms=old_ms, worked_at_ms=old_ms)
    verdict = look(case)
    assert (verdict.health, verdict.down) == ("catching-up", None)
    alive = next(each for each in verdict.findings if each.name == "alive")
    assert (alive.passed, alive.is_pending) == (False, True)
    assert alive.text.startswith("Nothing was committed for 2 min")
    assert f"The Kafka broker {servers} can't be reached" in alive.text
    assert "input waits" not in alive.text
    with case.alive():
        seen = card(case.loaded, status(case.loaded), None)
    assert seen.headline == "Broker does not answer"
    assert servers in seen.reason


def test_a_driver_that_can_not_begin_names_the_broker(case: LiveCase, servers: str) -> None:
    case.launch("a", idle=False, advanced_at_ms=None)
    verdict = look(case)
    assert verdict.health == "starting"
    assert f"not committed yet. The Kafka broker {servers} can't be reached" in verdict.reason


def test_a_look_asks_once_and_waits_less_than_others_do(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = noted_waits(monkeypatch)
    look(case)
    assert 0 < sum(waits) < TIMEOUT_S / 2


def test_a_run_that_an_outage_ended_is_restarted_once_the_broker_answers_however_long_that_takes(
    case: LiveCase, servers: str
) -> None:
    case.launch("a", state="failed", failure=DISK_FULL, splits_done=None, splits_total=None)
    found: Tick | None = None
    for _ in range(2 + case.loaded.pipeline.supervision.restarts.limit):
        found = tick(case.loaded)
        assert found is not None
        assert (found.verdict.health, found.restart) == ("dead", None)
        assert f"The Kafka broker {servers} can't be reached" in found.verdict.reason
        assert "A restart waits until the broker answers." in found.verdict.reason
    assert found is not None
    watch = case.watch()
    assert (watch.restarts, watch.gave_up) == ([], False)
    answers = found.verdict.model_copy(update={"waits_for": None})
    _, restart = decide(Look(answers, watch, now_ms()), case.loaded.pipeline.supervision)
    assert restart is not None


def test_a_broker_that_stays_away_turns_the_run_red(case: LiveCase) -> None:
    before_ms = now_ms()
    look(case)
    watch = case.watch()
    since_ms = watch.lag_unknown_since_ms
    assert since_ms is not None
    assert before_ms <= since_ms <= now_ms()
    long_ago = watch.model_copy(update={"lag_unknown_since_ms": since_ms - 700_000})
    write_watch(case.generation, long_ago)
    verdict = look(case)
    assert (verdict.health, verdict.is_red) == ("late", True)
    assert case.watch().lag_unknown_since_ms == since_ms - 700_000
