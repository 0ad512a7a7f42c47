"""Leases: one holder at a time, followed by another one only if it is silent or gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from hybrid_extensions.s3.documents import S3Documents
from sources.errors import StateError, UnavailableError
from sources.state.generation import Generation, GenerationInfo
from sources.storage.documents import LocalDocuments
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings
from spark_jobs.run_state import driver_lock, lease
from spark_jobs.run_state.lease import Lease, LeaseRecord, look, take
from tests.services.processes import NEVER_ENDS, runs, wait_for
from tests.services.s3_server import LOGIN, client
from tests.services.versitygw import Versitygw

NAME = "run/lease.json"
HOLD = f"""
import sys
from sources.storage.folder import Folder
from spark_jobs.run_state.lease import take
held = take(Folder(sys.argv[1]), "run/lease.json", "other", is_driven=True)
print(held is not None, flush=True)
{NEVER_ENDS}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(params=["a folder", "versitygw"])
def shared(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Folder]:
    """A folder whose store serves many requests at once."""
    if request.param == "a folder":
        yield Folder(tmp_path)
        return
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    with Versitygw() as store:
        client(store.endpoint).create_bucket(Bucket="lake")
        yield Folder("s3://lake/state", S3Documents(S3Settings(endpoint=store.endpoint)))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are watched for a moment only."""
    monkeypatch.setattr(lease, "OBSERVED_S", 0.6)


class Unreachable(LocalDocuments):
    """A store that stops answering."""

    answers = True

    def replace(self, path: str, data: bytes, tag: str) -> str | None:
        if not self.answers:
            raise UnavailableError("No answer.", "Wait.")
        return super().replace(path, data, tag)


def held_by(folder: Folder, holder: str, ttl_s: int = 30) -> Lease:
    made = take(folder, NAME, holder, is_driven=True, ttl_s=ttl_s)
    assert made is not None
    return made


def record(folder: Folder) -> LeaseRecord:
    found = folder.read(NAME, LeaseRecord)
    assert found is not None
    return found


def somewhere_else(folder: Folder) -> None:
    """Make the holder a process of another machine."""
    folder.replace(NAME, record(folder).model_copy(update={"machine": "another one"}))


def held_in_silence(folder: Folder) -> tuple[Lease, Unreachable]:
    """A lease of another machine for a second, and the store that its holder does not reach."""
    store = Unreachable()
    silent = held_by(Folder(folder.url, store), "a", ttl_s=1)
    store.answers = False
    somewhere_else(folder)
    return silent, store


def test_one_process_holds_a_lease_and_each_takeover_has_a_higher_epoch(
    folder: Folder,
) -> None:
    first = held_by(folder, "a")
    assert take(folder, NAME, "b", is_driven=True) is None
    assert first.is_held()
    first.release()
    assert not first.is_held()
    second = held_by(folder, "b")
    assert (first.record.epoch, second.record.epoch) == (0, 1)
    second.release()


def test_of_many_that_take_it_at_once_one_gets_it_and_after_each_release_the_next_one(
    shared: Folder,
) -> None:
    for epoch in range(5):
        together = threading.Barrier(8)

        def take_it(who: int, together: threading.Barrier = together) -> Lease | None:
            together.wait(60)
            return take(shared, NAME, f"{who}", is_driven=True)

        with ThreadPoolExecutor(8) as pool:
            taken = [lease for lease in pool.map(take_it, range(8)) if lease is not None]
        (holder,) = taken
        assert record(shared).holder == holder.record.holder
        assert holder.record.epoch == epoch
        holder.release()


def test_who_launches_hands_it_over_to_the_driver_of_the_same_launch(folder: Folder) -> None:
    launching = take(folder, NAME, "launch", is_driven=False)
    assert launching is not None
    launching.hand_over(os.getpid())
    driver = held_by(folder, "launch")
    assert (driver.record.epoch, driver.record.is_driven) == (0, True)
    assert take(folder, NAME, "another launch", is_driven=False) is None
    # The late word of the one that launched it changes nothing.
    launching.renew()
    assert record(folder).is_driven
    driver.release()


@pytest.mark.slow
def test_the_lease_of_a_process_of_this_machine_that_was_killed_is_free_at_once(
    folder: Folder,
) -> None:
    command = [sys.executable, "-c", HOLD, folder.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert take(folder, NAME, "me", is_driven=True) is None
        other.send_signal(signal.SIGKILL)
    held_by(folder, "me").release()


def wait_until_over(folder: Folder) -> None:
    """Wait until others take the time of a lease for over."""

    def is_over() -> bool:
        seen = look(folder, NAME)
        return seen is not None and not seen.is_valid

    wait_for(is_over, "the end of its time", 10)


@pytest.mark.slow
def test_a_silent_holder_elsewhere_is_followed_once_its_time_is_over(folder: Folder) -> None:
    silent, store = held_in_silence(folder)
    assert take(folder, NAME, "b", is_driven=True) is None
    wait_for(lambda: not silent.is_held(), "its end by its own clock", 10)
    wait_until_over(folder)
    seen = look(folder, NAME)
    assert seen is not None
    assert (seen.holder, seen.is_driven) == ("a", True)
    second = held_by(folder, "b")
    assert second.record.epoch == 1
    # It wakes up, and learns that it is not the holder any more.
    store.answers = True
    silent.renew()
    assert not silent.is_held()
    assert record(folder).holder == "b"
    second.release()


@pytest.mark.slow
def test_a_holder_that_was_slow_and_renews_while_it_is_watched_keeps_it(folder: Folder) -> None:
    held_in_silence(folder)
    wait_until_over(folder)

    def meanwhile(_: float) -> None:
        folder.replace(NAME, record(folder).model_copy(update={"renewals": 7}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", meanwhile)
        assert take(folder, NAME, "b", is_driven=True) is None


@pytest.mark.slow
def test_a_lease_is_renewed_while_it_is_held(folder: Folder) -> None:
    held = held_by(folder, "a", ttl_s=1)
    wait_for(lambda: record(folder).renewals >= 3, "three renewals", 10)
    assert held.is_held()
    held.release()


@pytest.mark.slow
def test_a_driver_that_can_not_renew_it_in_time_has_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Unreachable()
    info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
    generation = Generation(Folder(tmp_path, store), info)
    monkeypatch.setattr(Generation, "is_local", False)
    monkeypatch.setattr(lease, "TTL_S", 1)
    with driver_lock.QueryLock(generation, "launch") as held:
        held.require_held()
        assert driver_lock.is_held(generation)
        store.answers = False

        def is_lost() -> bool:
            try:
                held.require_held()
            except StateError:
                return True
            return False

        wait_for(is_lost, "the end of the lease", 10)
        with pytest.raises(StateError, match="could not be renewed in time") as caught:
            held.require_held()
        assert caught.value.transient


def test_of_two_launches_one_gets_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
    generation = Generation(Folder(tmp_path, LocalDocuments()), info)
    monkeypatch.setattr(Generation, "is_local", False)
    first = driver_lock.take_launch_lock(generation, "one")
    assert first is not None
    assert driver_lock.take_launch_lock(generation, "two") is None
    assert driver_lock.is_launched(generation)
    assert not driver_lock.is_held(generation)
    first.release()
    assert not driver_lock.is_launched(generation)
    second = driver_lock.take_launch_lock(generation, "two")
    assert second is not None
    second.release()


def test_a_renewal_counts_from_its_own_time_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100.0, sleep=time.sleep)
    monkeypatch.setattr(lease, "time", clock)
    held = held_by(Folder(tmp_path), "a", ttl_s=30)
    clock.monotonic = lambda: 129.0
    assert held.is_held()
    held.renew()
    clock.monotonic = lambda: 158.0
    assert held.is_held()
    clock.monotonic = lambda: 159.0
    assert not held.is_held()
    held.release()


def test_a_killed_holder_that_its_parent_has_not_noticed_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        seen = look(Folder(tmp_path), NAME)
        assert seen is not None
        assert seen.is_valid
        other.kill()
        wait_for(lambda: not runs(other.pid), "its end")
        seen = look(Folder(tmp_path), NAME)
        assert seen is not None
        assert not seen.is_valid
        held_by(Folder(tmp_path), "b").release()


def test_each_renewal_and_takeover_changes_the_document(tmp_path: Path) -> None:
    first = held_by(Folder(tmp_path), "a")
    first.renew()
    renewed = first.record.renewals
    again = held_by(Folder(tmp_path), "a")
    assert again.record.renewals > renewed
    assert again.record.epoch == first.record.epoch
    again.release()
    first.release()


def test_a_lease_is_kept_by_one_process_of_one_machine(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    held = held_by(folder, "a")
    seen = look(folder, NAME)
    assert seen is not None
    assert seen.is_kept_by(os.getpid())
    assert not seen.is_kept_by(os.getppid())
    assert not seen.model_copy(update={"machine": "another one"}).is_kept_by(os.getpid())
    held.release()
