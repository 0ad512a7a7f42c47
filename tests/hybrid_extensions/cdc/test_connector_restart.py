"""A connector that failed is started again by the supervision, where that is declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.cdc import slot_watch
from hybrid_extensions.cdc.connector_restart import is_due, restart_if_due
from hybrid_extensions.cdc.databases.replication_slot import WatchedSlot
from hybrid_extensions.cdc.databases.slot import Slot
from hybrid_extensions.cdc.slot_watch import SlotLook, SlotWatch
from orchestration.capture.slot_state import SlotSeen
from orchestration.supervision.supervisor import tick
from sources.config.loader import load_pipeline
from sources.config.source.snapshot import SnapshotOptions
from sources.config.supervision import Restarts
from sources.state.action_log import read_actions
from tests.orchestration.supervision.live_case import LiveCase
from tests.services.connect_worker import worker

S = 1000
RESTARTS = Restarts.model_validate({"limit": 2, "within": "10 min", "backoff": "10 s", "growth": 2})
FAILED = Slot("idle", 500, unread_bytes=100, log_end=1000, failure="EOFException: Failed to read")


@pytest.mark.parametrize(
    ("idle_s", "restarted_s", "is_now"),
    [
        (None, [], False),
        (90, [], True),
        (91, [], False),
        # The second wait is twice as long, and begins with the first restart.
        (50, [81], False),
        (50, [80], True),
        (50, [60, 70], False),
    ],
)
def test_a_connector_is_restarted_as_rarely_as_a_run(
    idle_s: int | None, restarted_s: list[int], is_now: bool
) -> None:
    idle_ms = None if idle_s is None else idle_s * S
    assert is_due(idle_ms, [each * S for each in restarted_s], RESTARTS, 100 * S) == is_now


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_look_of_the_supervision_starts_it_and_the_log_of_actions_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_declared: bool
) -> None:
    case = LiveCase(tmp_path, {"restarts": {"backoff": "0 s", "limit": 1}})
    asked: list[str] = []
    with worker({}, asked) as url:
        options = SnapshotOptions(
            dsn="logged://me@db/shop", connector=url, restart_connector=is_declared
        )
        monkeypatch.setattr(slot_watch, "watched_slots", lambda _: [WatchedSlot(options, None)])
        monkeypatch.setattr(slot_watch, "ask_slot", lambda _: FAILED)
        case.ask_for_it()
        with case.alive():
            case.launch("one")
            verdicts: list[Any] = [tick(case.loaded), tick(case.loaded)]
        restarts = ["/connectors/shop/restart?includeTasks=true&onlyFailed=true"]
        assert asked == (restarts if is_declared else [])
    health = [each.verdict.health for each in verdicts]
    assert health == (["catching-up"] * 2 if is_declared else ["cut-off"] * 2)
    assert "FAILED (EOFException: Failed to read)" in verdicts[0].verdict.reason
    actions = [each for each in read_actions(case.loaded.state) if "connector" in each.action]
    assert [(each.by, each.outcome) for each in actions] == (
        [("supervision", "done")] if is_declared else []
    )
    if actions:
        assert actions[0].before == {"connector": url, "failure": FAILED.failure}


def test_tables_of_one_connector_count_its_restarts_together(tmp_path: Path) -> None:
    limit = {"restarts": {"backoff": "0 s", "limit": 2, "within": "10 min"}}
    first = LiveCase(tmp_path, limit)
    path = tmp_path / "lines.yaml"
    path.write_text(first.path.read_text().replace("name: events", "name: lines"))
    tables = [first.loaded, load_pipeline(path)]
    asked: list[str] = []
    with worker({}, asked) as url:
        seen = SlotSeen(connector=url, failure="EOFException", is_restarted=True)
        look = SlotLook(seen, SlotWatch(slot="shop", idle_since_ms=0), None)

        def tick_all(at_s: int) -> int:
            before = len(asked)
            for each in tables:
                generation = each.open_generation(create=True)
                assert generation is not None
                restart_if_due(each, generation, look, at_s * S)
            return len(asked) - before

        assert [tick_all(at_s) for at_s in (1, 2, 3)] == [2, 0, 0]
        # Those from before the window do not count.
        assert [tick_all(at_s) for at_s in (600, 601, 602)] == [0, 2, 0]
