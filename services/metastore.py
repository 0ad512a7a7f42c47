"""A real Hive metastore on this machine, from the jars that PySpark has; ends with its process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from xml.sax.saxutils import escape

from services.process import HOST, Service, end, free_ports, last_lines, spawn
from sources.errors import RunError
from spark_jobs.jvm.java import require_java
from spark_jobs.launch.submit import spark_home

START_TIMEOUT_S = 120.0
_POLL_S = 0.2
# Hive 2.3 reaches into classes that Java 17 keeps closed.
_JVM = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)


class LocalMetastore(Service):
    """Hive metastore with an empty database (Derby), as a context manager."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def uri(self) -> str:
        """``thrift://host:port``, Spark's property ``spark.hadoop.hive.metastore.uris``.

        Raises:
            RunError: The metastore is not running.
        """
        if self._process is None:
            message = "The Hive metastore is not running, so it has no address."
            hint = "Call `start()` first, or use the metastore as a context manager."
            raise RunError(message, hint, transient=False)
        return f"thrift://{HOST}:{self._port}"

    def start(self) -> None:
        """Start the metastore and wait until it answers; do nothing if it runs.

        Raises:
            RunError: It ended at start, or did not answer within 120 s.
            InputError: Java or Spark is missing.
        """
        if self._process is not None:
            return
        self._folder = folder = Path(tempfile.mkdtemp(prefix="hybrid-metastore-"))
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": f"{folder}/warehouse",
            # Its library is not among PySpark's.
            "hive.async.log.enabled": "false",
        }
        entries = (
            f"<property><name>{name}</name><value>{escape(value)}</value></property>"
            for name, value in settings.items()
        )
        text = f"<configuration>{''.join(entries)}</configuration>"
        (folder / "hive-site.xml").write_text(text)
        (self._port,) = free_ports(1)
        path = f"{folder}:{spark_home() / 'jars'}/*"
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        # Else Derby writes its log into the folder that this process is in.
        jvm = (*_JVM, f"-Dderby.stream.error.file={folder}/derby.log")
        command = [str(require_java()), *jvm, "-cp", path, main, "-p", str(self._port)]
        log = folder / "metastore.log"
        self._process = spawn(command, log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                printed = last_lines(log.read_bytes())
                self.stop()
                message = f"The Hive metastore did not start:\n{printed}"
                raise RunError(message, "Correct what its log names, then start it again.")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End the metastore, whose database is lost; do nothing if it is not running."""
        if self._process is not None:
            end(self._process)
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self._port), 1.0).close()
        except OSError:
            return False
        return True
