"""When a lease may be taken over, by the store's clock and by what is known of its process."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sources.errors import StateError, UnavailableError
from sources.state.generation import Generation, GenerationInfo
from sources.storage.documents import LocalDocuments
from sources.storage.folder import Folder
from spark_jobs.run_state import driver_lock, driver_process, lease, lock, table_locks
from spark_jobs.run_state.lease import OBSERVED_S, TTL_S, LeaseRecord, SeenLease, look, take

NAME = "run/lease.json"


class Aged(LocalDocuments):
    """A store that says how old a document is."""

    age: int | None = 0
    answers = True

    def age_ms(self, path: str) -> int | None:
        return self.age

    def replace(self, path: str, data: bytes, tag: str) -> str | None:
        if not self.answers:
            message = "No answer."
            raise UnavailableError(message, "Wait.")
        return super().replace(path, data, tag)


@pytest.fixture
def store() -> Aged:
    return Aged()


@pytest.fixture
def folder(tmp_path: Path, store: Aged) -> Folder:
    return Folder(tmp_path, store)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long leases are watched; no time passes meanwhile."""
    found: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=found.append)
    monkeypatch.setattr(lease, "time", clock)
    return found


def kept(folder: Folder, **changes: Any) -> LeaseRecord:
    """A lease of a process of another machine."""
    said = {
        "epoch": 4,
        "holder": "other",
        "host": "elsewhere",
        "machine": "another one",
        "pid": 7,
        "is_driven": True,
        "ttl_s": 30,
        "renewals": 9,
    }
    record = LeaseRecord.model_validate({**said, **changes})
    folder.replace(NAME, record)
    return record


def own_machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def has_been_taken(folder: Folder, holder: str = "me") -> bool:
    made = take(folder, NAME, holder, is_driven=True)
    if made is not None:
        made.release()
    return made is not None


def test_the_first_holder_has_epoch_0_and_is_this_process_for_the_usual_time(
    folder: Folder,
) -> None:
    made = take(folder, NAME, "me", is_driven=True)
    assert made is not None
    assert made.record == LeaseRecord(
        epoch=0,
        holder="me",
        host=socket.gethostname(),
        machine=own_machine(),
        pid=os.getpid(),
        is_driven=True,
        ttl_s=TTL_S,
    )
    made.release()
    made.release()
    freed = folder.read(NAME, LeaseRecord)
    assert freed is not None
    assert (freed.holder, freed.renewals) == (None, 1)


@pytest.mark.parametrize(("age_ms", "is_free"), [(29_999, False), (30_000, True), (None, False)])
def test_one_that_was_not_renewed_for_its_time_is_taken_over_after_it_was_watched(
    folder: Folder, store: Aged, watched: list[float], age_ms: int | None, is_free: bool
) -> None:
    kept(folder)
    store.age = age_ms
    assert has_been_taken(folder) is is_free
    assert watched == ([OBSERVED_S] if is_free else [])


def test_a_takeover_has_the_next_epoch_and_is_a_renewal(
    folder: Folder, store: Aged, watched: list[float]
) -> None:
    kept(folder)
    store.age = 60_000
    made = take(folder, NAME, "me", is_driven=False, ttl_s=120)
    assert made is not None
    assert (made.record.epoch, made.record.renewals) == (5, 10)
    assert (made.record.is_driven, made.record.ttl_s) == (False, 120)
    assert watched
    made.release()


def test_the_same_holder_takes_it_again_without_another_epoch(
    folder: Folder, watched: list[float]
) -> None:
    kept(folder, holder="me")
    made = take(folder, NAME, "me", is_driven=True)
    assert made is not None
    assert (made.record.epoch, made.record.renewals, watched) == (4, 10, [])
    made.release()


def test_one_that_was_released_is_free_at_once(folder: Folder, watched: list[float]) -> None:
    kept(folder, holder=None)
    assert has_been_taken(folder)
    assert watched == []


@pytest.mark.parametrize("change", ["renewed", "deleted"])
def test_one_that_changes_while_it_is_watched_stays_its_holders(
    folder: Folder, store: Aged, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    kept(folder)
    store.age = 60_000

    def meanwhile(_: float) -> None:
        if change == "renewed":
            kept(folder, renewals=10)
        else:
            folder.delete(NAME)

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=meanwhile)
    monkeypatch.setattr(lease, "time", clock)
    assert not has_been_taken(folder)


def test_a_rival_that_writes_first_has_it(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    made = LocalDocuments.put_if_absent

    def late(documents: LocalDocuments, path: str, data: bytes) -> str | None:
        kept(folder)
        return made(documents, path, data)

    monkeypatch.setattr(LocalDocuments, "put_if_absent", late)
    assert not has_been_taken(folder)
    found = folder.read(NAME, LeaseRecord)
    assert found is not None
    assert found.holder == "other"


def test_one_that_is_handed_over_to_this_holder_is_asked_for_three_times(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(folder, holder="me")
    tries: list[str] = []

    def changed(_: LocalDocuments, path: str, __: bytes, tag: str) -> str | None:
        tries.append(tag)
        kept(folder, holder="me", renewals=10 + len(tries))
        return None

    monkeypatch.setattr(Aged, "replace", changed)
    assert take(folder, NAME, "me", is_driven=True) is None
    assert len(set(tries)) == 3


@pytest.mark.parametrize("is_own_machine", [True, False])
def test_only_of_this_machine_a_process_is_known_to_have_ended(
    folder: Folder, store: Aged, watched: list[float], is_own_machine: bool
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        # It has ended, and nobody has asked how.
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        machine = own_machine() if is_own_machine else "another one"
        for pid in (ended.pid, 4_194_305):
            kept(folder, machine=machine, pid=pid)
            seen = look(folder, NAME)
            assert seen is not None
            assert seen.is_valid is not is_own_machine
            assert has_been_taken(folder) is is_own_machine
    assert watched == []


def test_one_of_a_process_of_this_machine_that_lives_is_not_taken(folder: Folder) -> None:
    kept(folder, machine=own_machine(), pid=os.getpid())
    assert not has_been_taken(folder)
    seen = look(folder, NAME)
    assert seen is not None
    assert seen.is_kept_by(os.getpid())
    assert not seen.is_kept_by(os.getpid() + 1)
    kept(folder, pid=os.getpid())
    there = look(folder, NAME)
    assert there is not None
    assert not there.is_kept_by(os.getpid())


def test_others_see_how_old_it_is_and_whether_it_counts(folder: Folder, store: Aged) -> None:
    assert look(folder, NAME) is None
    record = kept(folder)
    for age_ms, is_valid in ((1500, True), (29_999, True), (30_000, False)):
        store.age = age_ms
        seen = look(folder, NAME)
        assert seen == SeenLease(**record.model_dump(), age_s=age_ms / 1000)
        assert seen.is_valid is is_valid
    kept(folder, holder=None)
    store.age = 0
    freed = look(folder, NAME)
    assert freed is not None
    assert not freed.is_valid
    # It was removed between the two questions.
    store.age = None
    assert look(folder, NAME) is None


def test_a_holder_knows_by_its_own_clock_when_its_time_is_over(
    folder: Folder, store: Aged, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(s=100.0)
    clock = SimpleNamespace(monotonic=lambda: now.s, sleep=time.sleep)
    monkeypatch.setattr(lease, "time", clock)
    made = take(folder, NAME, "me", is_driven=True, ttl_s=30)
    assert made is not None
    for at, is_held in ((129.9, True), (130.0, False)):
        now.s = at
        assert made.is_held() is is_held
    made.renew()
    assert made.is_held()
    store.answers = False
    with pytest.raises(UnavailableError):
        made.renew()
    now.s = 160.0
    assert not made.is_held()
    # It can't be freed, which is no error: it ends by itself.
    made.release()
    assert not made.is_held()


@pytest.mark.parametrize(
    ("other", "is_lost"),
    [({"holder": "other"}, True), ({"epoch": 5}, True), ({"pid": 8}, False), (None, True)],
)
def test_a_renewal_that_meets_another_record_is_lost_unless_it_is_of_the_same_holder(
    folder: Folder, other: dict[str, Any] | None, is_lost: bool
) -> None:
    made = take(folder, NAME, "me", is_driven=True)
    assert made is not None
    if other is None:
        folder.delete(NAME)
    else:
        kept(folder, **{"holder": "me", "epoch": 0, **other})
    made.renew()
    assert made.is_held() is not is_lost
    before = folder.read_bytes(NAME)
    if is_lost:
        made.renew()
        made.release()
        assert folder.read_bytes(NAME) == before, "nothing of a later holder is written over"
    else:
        made.release()


def test_who_hands_it_over_names_the_process_that_renews_it_from_then_on(folder: Folder) -> None:
    made = take(folder, NAME, "me", is_driven=False)
    assert made is not None
    made.hand_over(4711)
    found = folder.read(NAME, LeaseRecord)
    assert found is not None
    assert (found.pid, found.holder, found.renewals) == (4711, "me", 1)


@pytest.fixture
def generation(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Generation:
    """A generation whose state is in a store."""
    monkeypatch.setattr(Folder, "is_local", False)
    info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
    return Generation(folder, info)


def test_a_driver_whose_state_is_in_a_store_is_known_by_its_lease(generation: Generation) -> None:
    assert not driver_lock.is_held(generation)
    assert not driver_lock.is_launched(generation)
    assert not driver_process.is_driver(generation, os.getpid())
    with driver_lock.QueryLock(generation, "launch") as held:
        assert held.is_lease
        assert driver_lock.is_held(generation)
        assert driver_lock.is_launched(generation)
        assert driver_process.is_driver(generation, os.getpid())
        assert not driver_process.is_driver(generation, os.getpid() + 1)
        with pytest.raises(StateError, match=r"holds the lock .*run/lease\.json"):
            driver_lock.QueryLock(generation, "another launch").__enter__()
    assert not driver_lock.is_held(generation)


def test_a_launch_is_no_driver_yet(generation: Generation) -> None:
    launching = driver_lock.take_launch_lock(generation, "launch")
    assert launching is not None
    assert driver_lock.is_launched(generation)
    assert not driver_lock.is_held(generation)
    assert not driver_process.is_driver(generation, os.getpid())
    launching.release()


def test_who_changes_a_table_whose_state_is_in_a_store_is_known_by_a_lease(
    generation: Generation,
) -> None:
    assert not table_locks.is_switching(generation)
    held = table_locks.take_switch_lock(generation)
    assert held is not None
    assert table_locks.is_switching(generation)
    assert table_locks.take_switch_lock(generation) is None
    held.release()
    assert not table_locks.is_switching(generation)


def test_a_lock_that_is_taken_leaves_no_file_open(tmp_path: Path) -> None:
    held = lock.take_lock(Folder(tmp_path), "driver")
    assert held is not None
    before = len(os.listdir("/proc/self/fd"))
    assert lock.take_lock(Folder(tmp_path), "driver") is None
    assert len(os.listdir("/proc/self/fd")) == before
    assert stat.S_IMODE((tmp_path / "driver.lock").stat().st_mode) == 0o644
    held.release()
