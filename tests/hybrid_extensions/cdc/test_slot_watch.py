"""What one look at a replication slot leaves for the next, whoever looks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hybrid_extensions.cdc import slot_watch
from hybrid_extensions.cdc.databases.replication_slot import NEW_SNAPSHOT, WatchedSlot
from hybrid_extensions.cdc.databases.slot import Slot
from hybrid_extensions.cdc.silence_watch import SilenceLook, keep_silence
from hybrid_extensions.cdc.slot_watch import SlotLook, keep_slot, observe_slot
from orchestration.supervision import live_look as look_module
from orchestration.supervision.rules import findings
from orchestration.supervision.status import status
from sources.common.times import now_ms
from sources.config.loader import load_pipeline
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import StateError, UnavailableError
from sources.state.generation import Generation, GenerationInfo
from sources.storage.documents import LocalDocuments
from sources.storage.folder import Folder
from tests.orchestration.supervision.live_case import LiveCase
from tests.sources.config.test_unchanged import CHANGES, MERGE

Look = Callable[[Slot | str, int], SlotLook]
IDLE = Slot("idle", 500, unread_bytes=100, log_end=1000, received=900)


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
    return Generation(Folder(tmp_path / "state"), info)


@pytest.fixture
def look(tmp_path: Path, generation: Generation, monkeypatch: pytest.MonkeyPatch) -> Look:
    """One look, by a process that knows nothing of the others."""
    snapshot = {
        "name": "snapshot",
        "type": "files",
        "path": "snapshot/*.parquet",
        "format": "parquet",
        "snapshot": {"dsn": "slotted://db", "slot": "shop"},
    }
    changes = {name: value for name, value in CHANGES.items() if name != "start"}
    include = {**CHANGES["include"], "lsn": "lsn", "tx": "transaction"}
    (tmp_path / "p.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "orders",
                "event_time": "at",
                "sources": [snapshot, {**changes, "include": include}],
                "transform": "transforms:identity",
                "sink": MERGE,
                "state": "state",
            }
        )
    )
    loaded = load_pipeline(tmp_path / "p.yaml")

    def run(slot: Slot | str, at_ms: int) -> SlotLook:
        monkeypatch.setattr(slot_watch, "ask_slot", lambda _: slot)
        found = observe_slot(loaded, generation, at_ms)
        keep_slot(generation, found)
        assert found is not None
        return found

    return run


def test_a_slot_is_idle_since_it_was_first_seen_so(look: Look) -> None:
    assert look(IDLE, 5).seen.idle_since_ms == 5
    assert look(IDLE, 9).seen.idle_since_ms == 5
    # A database that does not answer for a while says nothing else.
    assert look("no answer", 10).seen.idle_since_ms == 5
    assert look(IDLE._replace(state="active"), 11).seen.idle_since_ms is None
    assert look(IDLE, 12).seen.idle_since_ms == 12


def test_a_slot_is_unknown_since_the_first_look_that_got_no_answer(look: Look) -> None:
    assert look("no answer", 5).seen.unknown_since_ms == 5
    assert look("another reason", 9).seen.unknown_since_ms == 5
    assert look(IDLE, 10).seen.unknown_since_ms is None
    assert look("no answer", 11).seen.unknown_since_ms == 11


def test_a_connector_that_reads_on_is_not_behind_since_its_first_byte(look: Look) -> None:
    active = IDLE._replace(state="active")
    assert look(active, 1).seen.unread_since_ms == 1
    # It has not read what the log held at the first look.
    assert look(active._replace(log_end=1500, unread_bytes=501), 2).seen.unread_since_ms == 1
    assert look(active._replace(log_end=1500, unread_bytes=500), 3).seen.unread_since_ms == 3
    found = look(active._replace(unread_bytes=0), 4)
    assert (found.seen.unread_since_ms, found.seen.unread_bytes) == (None, 0)


def test_a_connector_of_which_only_confirmations_are_known_is_behind_until_the_next_one(
    look: Look,
) -> None:
    active = Slot("active", 500, unread_bytes=500, log_end=70, confirmed=60)
    assert look(active, 1).seen.unread_since_ms == 1
    assert look(active._replace(log_end=80, confirmed=69), 2).seen.unread_since_ms == 1
    assert look(active._replace(log_end=80, confirmed=70), 3).seen.unread_since_ms == 3
    found = look(active._replace(log_end=80, confirmed=80, unread_bytes=0), 4).seen
    assert (found.unread_since_ms, found.unread_bytes, found.is_confirmation) == (None, 0, True)


def test_a_missing_slot_is_recorded_for_good(look: Look) -> None:
    gone = str(look(Slot("lost"), 1).seen.gone)
    assert gone.startswith("Replication slot `shop` had lost its log at ")
    assert gone.endswith(f": changes are missing. {NEW_SNAPSHOT}")
    assert "had lost its log" in str(look(IDLE, 2).seen.gone)


def test_a_setting_that_lost_changes_is_recorded_for_good(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ["", "Connector shop has `skipped.operations=d`: such changes are left out.", ""]
    monkeypatch.setattr(slot_watch, "settings_problem", lambda *_: told.pop(0))
    assert look(IDLE, 1000).seen.misset == ""
    assert "skipped.operations=d" in look(IDLE, 2000).seen.misset
    # It is set right again, and the rows are as they were.
    assert look(IDLE, 3000).seen.misset.endswith("are left out. Found at 1970-01-01T00:00:02Z.")


def test_a_state_that_can_not_be_written_is_no_error(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        message = "The disk is full."
        raise StateError(message, "Free some space.")

    monkeypatch.setattr(Generation, "replace", refuse)
    assert look(IDLE, 5).seen.idle_since_ms == 5


def test_nothing_is_written_that_is_there_already(look: Look, tmp_path: Path) -> None:
    look(IDLE, 5)
    (file,) = tmp_path.rglob("slot-watch.json")
    before = file.stat().st_ino
    look(IDLE, 6)
    assert file.stat().st_ino == before
    assert json.loads(file.read_text())["idle_since_ms"] == 5


def test_status_alone_finds_out_that_nobody_reads_the_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path, {"freshness": "5 min"})
    options = SnapshotOptions(dsn="slotted://db", slot="shop")
    monkeypatch.setattr(slot_watch, "watched_slots", lambda _: [WatchedSlot(options, None)])
    monkeypatch.setattr(slot_watch, "ask_slot", lambda _: IDLE)
    case.ask_for_it()
    begun_ms = now_ms()
    with case.alive():
        for later_s, expected in ((0, "healthy"), (300, "healthy"), (301, "cut-off")):
            at_ms = begun_ms + later_s * 1000
            case.launch("one", at_ms=at_ms, advanced_at_ms=at_ms)
            monkeypatch.setattr(look_module, "now_ms", lambda at_ms=at_ms: at_ms)
            live = status(case.loaded).live
            assert live is not None
            assert live.health == expected
            is_said = "No connector has read the slot for 5 min 1 s" in live.reason
            assert is_said == (expected == "cut-off")


def test_of_several_shards_the_worst_slot_counts_and_each_is_recorded_for_itself(
    generation: Generation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = [
        SnapshotOptions(dsn="slotted://db", slot=name, topic=f"{name}.orders")
        for name in ("eu", "us", "asia")
    ]
    slots = {"eu": IDLE._replace(state="active"), "us": Slot("missing"), "asia": IDLE}
    watched = [WatchedSlot(options, None) for options in shards]
    monkeypatch.setattr(slot_watch, "watched_slots", lambda _: watched)
    monkeypatch.setattr(slot_watch, "ask_slot", lambda options: slots[options.slot])
    loaded = LiveCase(tmp_path).loaded
    found = observe_slot(loaded, generation, 5)
    keep_slot(generation, found)
    assert found is not None
    assert (found.seen.shard, [each.seen.shard for each in found.others]) == (
        "us.orders",
        ["asia.orders", "eu.orders"],
    )
    text = findings.slot(found.seen, loaded.pipeline.supervision, 5).text
    assert text.startswith("Shard us.orders: Replication slot `us` did not exist")
    # It stays lost, though another one gets worse.
    slots.update(us=IDLE._replace(state="active"), asia=Slot("lost"))
    again = observe_slot(loaded, generation, 9)
    assert again is not None
    assert {each.seen.shard for each in (again, *again.others) if each.seen.gone} == {
        "us.orders",
        "asia.orders",
    }


def test_a_look_survives_a_store_of_the_state_that_does_not_answer(
    look: Look, generation: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = look(IDLE, 5)

    def silent(*_: object) -> None:
        raise UnavailableError("The store does not answer.", "Try again.")

    monkeypatch.setattr(LocalDocuments, "put", silent)
    later = found._replace(watch=found.watch.model_copy(update={"idle_since_ms": 9}))
    keep_slot(generation, later)
    keep_silence(generation, SilenceLook(None, {"run/slot-watch.json": later.watch}))
    # The next look begins with what is there.
    assert look(IDLE, 10).seen.idle_since_ms == 5
