"""A real Hive metastore on this machine, from the jars that PySpark has; ends with its process."""

from __future__ import annotations

import socket
from pathlib import Path
from xml.sax.saxutils import escape

from hybrid_extensions.servers.process import HOST, TemporaryServer
from spark_jobs.jvm.java import require_java
from spark_jobs.jvm.spark_version import spark_home

# Hive 2.3 reaches into classes that Java 17 keeps closed.
_JVM = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)


class LocalMetastore(TemporaryServer):
    """Hive metastore with an empty database (Derby), as a context manager."""

    name = "Hive metastore"
    start_timeout_s = 120.0

    @property
    def uri(self) -> str:
        """``thrift://host:port``, Spark's property ``spark.hadoop.hive.metastore.uris``.

        Raises:
            RunError: The metastore is not running.
        """
        return f"thrift://{self.address}"

    def _command(self, folder: Path, port: int) -> list[str]:
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
        path = f"{folder}:{spark_home() / 'jars'}/*"
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        # Else Derby writes its log into the folder that this process is in.
        jvm = (*_JVM, f"-Dderby.stream.error.file={folder}/derby.log")
        return [str(require_java()), *jvm, "-cp", path, main, "-p", str(port)]

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self._port), 1.0).close()
        except OSError:
            return False
        return True
