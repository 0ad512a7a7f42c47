"""Debezium's engine in a JVM of its own: batches, acknowledged once kept; silent for a minute.

The JVM ends when this process ends, however that happens, as it reads the end of its input then.
``python -m hybrid_extensions.change_log.engine`` builds its jar again, which needs a JDK.
"""

from __future__ import annotations

import contextlib
import json
import select
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from sources.errors import UnavailableError
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.java import find_java
from spark_jobs.jvm.own_jar import OwnJar

JAR = OwnJar(
    Path(__file__).with_name("java"),
    "hybrid-log.jar",
    "hybridbackfill/log",
    "It runs Debezium's engine.",
)
_JVM = ("-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = "-Dlog4j2.level=WARN"
_END_S = 10.0
SILENCE_S = 60.0
"""How long an engine that has sent something may send nothing, not even a heartbeat, in s."""
_HEARTBEAT = "heartbeat.interval.ms"
_WORDS = 600


class Sent(NamedTuple):
    """A record that the engine has sent.

    Attributes:
        topic: Its topic.
        key: Its key.
        value: Its value; None for a tombstone.
        partition: Debezium's name of the database.
        offset: Debezium's offset of it in the database's log.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition: dict[str, Any]
    offset: dict[str, Any]


class Engine:
    """Debezium's engine, started by the constructor; a context manager that ends it.

    Args:
        jars: Set of jars with the connector.
        settings: Settings of Debezium, with secrets: they are written to the JVM's input.
        log: File that its log is appended to.

    Raises:
        InputError: Java or the jars are missing; Java's version is not looked at.
    """

    def __init__(self, jars: str, settings: Mapping[str, str], log: Path) -> None:
        path = f"{JAR.require()}:{resolve(jars)[0].parent}/*"
        command = [
            str(find_java()),
            *_JVM,
            _LOGGING,
            "-cp",
            path,
            "hybridbackfill.log.LogEngine",
        ]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
            )
        self.pid = self._process.pid
        self._log = log
        # Without heartbeats a database without changes is silent, too.
        beats = settings.get(_HEARTBEAT, "")
        beats_s = int(beats) / 1000 if beats.isdecimal() else 0.0
        self._silence_s = max(SILENCE_S, 3 * beats_s) if beats_s else None
        self._has_spoken = False
        data = json.dumps(dict(settings)).encode()
        self._write(struct.pack(">i", len(data)) + data)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        """End the JVM at once; what was not acknowledged is sent again by the next one."""
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def batches(self, require_database: Callable[[], None]) -> Iterator[list[Sent]]:
        """Yield batches of records; each has to be answered before the next one.

        The first batch is waited for as long as the database answers; where heartbeats are switched
        off, any batch is, and nothing is asked.

        Args:
            require_database: Called once a minute before the first one, for which the engine may
                have to wait until something is changed; raises if the database does not answer.

        Raises:
            UnavailableError: The engine ended, as after an error, or has sent nothing for a minute;
                says why.
        """
        while True:
            self._wait(require_database)
            size = self._number()
            if size < 0:
                why = (self._bytes() or b"").decode()
                what = f"Debezium's engine ended: {' '.join(why.split())[:_WORDS]}"
                raise self._ended(what)
            self._has_spoken = True
            yield [self._record() for _ in range(size)]

    def _wait(self, require_database: Callable[[], None]) -> None:
        """Wait for the next batch, of which the reader's buffer holds nothing yet."""
        assert self._process.stdout is not None
        output = select.poll()
        output.register(self._process.stdout, select.POLLIN)
        limit_ms = None if self._silence_s is None else self._silence_s * 1000
        while not output.poll(limit_ms):
            if not self._has_spoken:
                require_database()
                continue
            what = (
                "Debezium's engine has sent no change and no heartbeat for "
                f"{self._silence_s:g} s, as its database is silent"
            )
            raise self._ended(what)

    def answer(self, kept: int) -> None:
        """Answer the batch that :meth:`batches` yielded last; the engine then sends the next one.

        Args:
            kept: Index of the last record that may be acknowledged to the database; -1 for none.

        Raises:
            UnavailableError: The engine ended.
        """
        self._write(struct.pack(">i", kept))

    def _record(self) -> Sent:
        topic, key, value = (self._bytes() or b"").decode(), self._bytes(), self._bytes()
        partition, offset = json.loads(self._bytes() or b"")
        return Sent(topic, key, value, partition, offset)

    def _bytes(self) -> bytes | None:
        size = self._number()
        return None if size < 0 else self._read(size)

    def _number(self) -> int:
        (found,) = struct.unpack(">i", self._read(4))
        return int(found)

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise self._ended("Debezium's engine ended without a word")
        return data

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _write(self, data: bytes) -> None:
        try:
            self._input.write(data)
            self._input.flush()
        except OSError:
            raise self._ended("Debezium's engine ended without a word") from None

    def _ended(self, what: str) -> UnavailableError:
        message = f"{what.rstrip('.')}."
        hint = f"The engine is started again; correct what this or its log {self._log} names."
        return UnavailableError(message, hint, file=str(self._log))


if __name__ == "__main__":
    JAR.build([f"{resolve('connect')[0].parent}/*"])
