"""Leases: locks in a store; when one has expired (30 s, by the store's clock) and is taken over.

A lease is a document that its holder replaces again and again. One that was not renewed for its
time to live, by the store's clock, may be taken over by whoever then sees it unchanged for a while
by a clock of its own. Clocks of machines are never compared. Each takeover has a higher epoch.

A lease is no fence: a process that was suspended may wake up after its lease was taken over. What
refuses its late writes is the transaction version in the target's commit, and the condition with
which each file of the checkpoint is created.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from functools import cache
from pathlib import Path

from sources.common.state_document import Record
from sources.errors import HybridError
from sources.storage.folder import Folder

TTL_S = 30
"""Time to live of a driver's lease; it is renewed three times as often."""
LAUNCH_TTL_S = 120
"""Time to live of a lease of a launch whose driver is not up yet."""
_RENEWALS = 3
_TRIES = 3
OBSERVED_S = TTL_S / _RENEWALS * 1.2
"""Seconds that a lease is watched before it is taken over, longer than between two renewals."""


class LeaseRecord(Record):
    """Content of a lease in the store.

    Attributes:
        epoch: Number of the holder; each takeover raises it by one.
        holder: Identifier of who holds it; None once it was released.
        host: Name of the holder's machine, for people.
        machine: Identifies the machine and its process numbers, since its last start.
        pid: Process that keeps it.
        is_driven: Whether the holder is a driver; else a process that launches one, or changes
            which generation serves.
        ttl_s: Seconds without a renewal after which it may be taken over.
        renewals: Number of renewals, so that each one changes the document.
    """

    epoch: int
    holder: str | None
    host: str
    machine: str
    pid: int
    is_driven: bool
    ttl_s: int
    renewals: int = 0


class Lease:
    """Lease that this process holds; a thread renews it until it is released or handed over.

    Made by :func:`take`.

    Args:
        folder: Folder of the state.
        name: Path of the lease's document in it.
        record: The record as it was written.
        tag: Version tag of the document.
        since: ``time.monotonic()`` before it was written.
    """

    def __init__(
        self, folder: Folder, name: str, record: LeaseRecord, tag: str, since: float
    ) -> None:
        self._folder = folder
        self._name = name
        self._tag = tag
        self._deadline = since + record.ttl_s
        self._is_lost = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.record = record
        self._thread = threading.Thread(target=self._keep, name=f"lease {name}", daemon=True)
        self._thread.start()

    def is_held(self) -> bool:
        """Return whether the lease is certainly this process's: not lost, and not near its expiry.

        By this process's own clock; nothing is read.
        """
        return not self._is_lost and time.monotonic() < self._deadline

    def renew(self) -> None:
        """Renew the lease in the store.

        After that :meth:`is_held` returns whether it is still held.

        Raises:
            HybridError: The store does not answer, or refuses.
        """
        with self._lock:
            self._write(self.record)

    def release(self) -> None:
        """Free the lease for others at once, and stop renewing it; raises nothing."""
        self._stop()
        with self._lock:
            try:
                self._write(self.record.model_copy(update={"holder": None}))
            except HybridError:
                # It ends by itself.
                return
            finally:
                self._is_lost = True

    def hand_over(self, pid: int) -> None:
        """Stop renewing: a process that was started with the same holder id renews from now on.

        Args:
            pid: That process, by which others on this machine see whether it lives.

        Raises:
            StateError: The lease can't be written.
            UnavailableError: The store does not answer.
        """
        self._stop()
        with self._lock:
            self._write(self.record.model_copy(update={"pid": pid}))

    def _stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(self.record.ttl_s / _RENEWALS) and not self._is_lost:
            try:
                self.renew()
            except HybridError:
                # Tried again until the deadline.
                continue

    def _write(self, record: LeaseRecord) -> None:
        if self._is_lost:
            return
        # Counted from before the request: it may take long.
        since = time.monotonic()
        record = record.model_copy(update={"renewals": record.renewals + 1})
        path, data = self._folder.location(self._name), record.model_dump_json().encode()
        written = self._folder.documents.replace(path, data, self._tag)
        if written is None:
            there = self._folder.read(self._name, LeaseRecord)
            own = (self.record.holder, self.record.epoch)
            self._is_lost = there is None or (there.holder, there.epoch) != own
            # The same holder renews it in the process that it was handed over to.
            self._ended.set()
            return
        self.record, self._tag = record, written
        self._deadline = since + record.ttl_s


def take(
    folder: Folder, name: str, holder: str, *, is_driven: bool, ttl_s: int | None = None
) -> Lease | None:
    """Take a lease if it is free, expired, or already this holder's; None if another holds it.

    An expired lease is first watched for some seconds, so that the call may wait.

    Args:
        folder: Folder of the state.
        name: Path of the lease's document in it.
        holder: Identifier of the holder; processes that hand the lease over have the same.
        is_driven: Whether this process is a driver.
        ttl_s: Time to live in seconds; :data:`TTL_S` if None.

    Raises:
        StateError: The lease's document is damaged.
        UnavailableError: The store does not answer.
    """
    for _ in range(_TRIES):
        since = time.monotonic()
        found = folder.document(name)
        known = None if found is None else LeaseRecord.parse(found.data, folder.location(name))
        is_own = known is not None and known.holder == holder
        if found is not None and known is not None and known.holder is not None and not is_own:
            if not _is_abandoned(folder, name, known, found.tag):
                return None
            since = time.monotonic()
        record = _made(known, holder, is_driven=is_driven, ttl_s=ttl_s or TTL_S)
        path, data = folder.location(name), record.model_dump_json().encode()
        if found is None:
            tag = folder.documents.put_if_absent(path, data)
        else:
            tag = folder.documents.replace(path, data, found.tag)
        if tag is not None:
            return Lease(folder, name, record, tag, since)
        # Whoever hands it over may just have renewed it.
        if not is_own:
            return None
    return None


def _made(known: LeaseRecord | None, holder: str, *, is_driven: bool, ttl_s: int) -> LeaseRecord:
    """Return the record of a holder that follows a known one."""
    is_own = known is not None and known.holder == holder
    return LeaseRecord(
        epoch=0 if known is None else known.epoch + (not is_own),
        holder=holder,
        host=socket.gethostname(),
        machine=_machine(),
        pid=os.getpid(),
        is_driven=is_driven,
        ttl_s=ttl_s,
        renewals=0 if known is None else known.renewals + 1,
    )


class SeenLease(LeaseRecord):
    """Lease as other processes see it.

    Attributes:
        age_s: Seconds since it was last renewed, by the store's clock.
    """

    age_s: float

    @property
    def is_valid(self) -> bool:
        """Whether it has a holder that has renewed it in time.

        False, too, once the process that kept it has ended, if it was one of this machine.
        """
        return self.holder is not None and self.age_s < self.ttl_s and not _has_ended(self)

    @property
    def is_from_here(self) -> bool:
        """Whether a process renews it whose number means the same here: no other container's."""
        return self.machine == _machine()

    def is_kept_by(self, pid: int) -> bool:
        """Return whether the process of this machine with an id is the one that renews it."""
        return self.pid == pid and self.is_from_here


def look(folder: Folder, name: str) -> SeenLease | None:
    """Read the present state of a lease; None if there never was one.

    Args:
        folder: Folder in the store that has the lease.
        name: Name of its document.

    Raises:
        StateError: Its document is damaged.
        UnavailableError: The store does not answer.
    """
    known = folder.read(name, LeaseRecord)
    age_ms = None if known is None else folder.documents.age_ms(folder.location(name))
    if known is None or age_ms is None:
        return None
    return SeenLease(**known.model_dump(), age_s=age_ms / 1000)


def _is_abandoned(folder: Folder, name: str, known: LeaseRecord, tag: str) -> bool:
    """Return whether a holder has died: known on its own machine, else seen by its silence."""
    if _has_ended(known):
        return True
    age_ms = folder.documents.age_ms(folder.location(name))
    if age_ms is None or age_ms < known.ttl_s * 1000:
        return False
    time.sleep(OBSERVED_S)
    there = folder.document(name)
    return there is not None and there.tag == tag


def _has_ended(known: LeaseRecord) -> bool:
    """Return whether the holder was a process of this machine that is no more."""
    if known.machine != _machine():
        return False
    try:
        state = Path(f"/proc/{known.pid}/stat").read_text(errors="replace").rpartition(")")[2]
    except OSError:
        return True
    return state.split()[0] == "Z"


@cache
def _machine() -> str:
    """Return what identifies this machine and its process numbers until it starts again."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        # Without it a holder is known by its silence only.
        return f"{socket.gethostname()} {os.urandom(8).hex()}"
