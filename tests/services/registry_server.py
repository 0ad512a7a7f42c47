"""A schema registry on this machine, and the converter that Debezium's records are put in Avro by.

Apicurio Registry, which answers as Confluent's does too.
"""

from __future__ import annotations

import base64
import hashlib
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hybrid_extensions.maven.ivy import repository
from hybrid_extensions.servers.process import HOST, end, free_ports, last_lines, spawn
from sources.common.cache import cache_folder
from spark_jobs.jvm.jar_sets import JarSet
from spark_jobs.jvm.jars import obtain
from spark_jobs.jvm.java import require_java
from tests.services.processes import wait_for

_VERSION = "2.6.13.Final"
_ARCHIVE = (
    f"io/apicurio/apicurio-registry-app/{_VERSION}/apicurio-registry-app-{_VERSION}-all.tar.gz"
)
_CONVERTER = JarSet(
    packages=(f"io.apicurio:apicurio-registry-utils-converter:{_VERSION}",),
    # Kafka Connect has them.
    excludes=("org.apache.kafka:*", "org.slf4j:*"),
)
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@contextmanager
def schema_registry(folder: Path) -> Iterator[str]:
    """Where it answers, ``http://host:port``; ``/apis/ccompat/v7`` is as Confluent's."""
    (port,) = free_ports(1)
    (runner,) = _program().glob("*-runner.jar")
    url = f"http://{HOST}:{port}"
    settings = [f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={port}"]
    command = [str(require_java()), *_JVM, *settings, "-jar", str(runner)]
    log = folder / "registry.log"
    running = spawn(command, log)
    try:
        wait_for(lambda: _answers(url) or running.poll() is not None, "the registry", 120)
        assert running.poll() is None, last_lines(log.read_bytes())
        yield url
    finally:
        end(running)


def avro_settings(folder: Path, url: str) -> dict[str, str]:
    """What Kafka Connect needs to write values in Avro.

    Args:
        folder: Where its plugins are put.
        url: The registry's.
    """
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "avro").symlink_to(obtain("avro-converter", _CONVERTER)[0].parent)
    registry = "value.converter.apicurio.registry"
    return {
        "plugin.path": str(plugins),
        "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        f"{registry}.url": f"{url}/apis/registry/v2",
        f"{registry}.auto-register": "true",
        f"{registry}.find-latest": "true",
        # The frame, and the ids in it, as Confluent's clients have them.
        f"{registry}.as-confluent": "true",
        f"{registry}.use-id": "contentId",
        # Else the id is a header of the record, and nothing is in front of the value.
        f"{registry}.headers.enabled": "false",
    }


def _program() -> Path:
    """The folder that the registry is unpacked in; fetched once."""
    kept = cache_folder() / f"registry-{_VERSION}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f"{kept.name}.part")
        archive = part / "all.tar.gz"
        part.mkdir(exist_ok=True)
        archive.write_bytes(_fetch(_ARCHIVE))
        wanted = _fetch(f"{_ARCHIVE}.sha1").decode().split()[0]
        assert hashlib.sha1(archive.read_bytes()).hexdigest() == wanted
        with tarfile.open(archive) as packed:
            # Python 3.11 has the filter from 3.11.4 on.
            packed.extraction_filter = getattr(tarfile, "data_filter", None)
            packed.extractall(part)
        archive.unlink()
        part.rename(kept)
    return kept


def _fetch(path: str) -> bytes:
    origin = repository()
    request = urllib.request.Request(f"{origin.root.rstrip('/')}/{path}")
    if origin.user:
        login = base64.b64encode(f"{origin.user}:{origin.password}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
    with urllib.request.urlopen(request, timeout=600) as answer:
        found: bytes = answer.read()
    return found


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/apis/ccompat/v7/subjects", timeout=5):
            return True
    except OSError:
        return False
