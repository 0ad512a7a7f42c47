"""Dagster's UI over pipelines of flights, as `make ui` opens it, with a broker of its own."""

from __future__ import annotations

import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
import yaml
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser, sync_playwright

from examples import flight_data
from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.process import HOST, end, free_ports, last_lines, spawn
from hybrid_extensions.servers.server_programs import CHROMIUM, obtain
from orchestration.operations import stopping
from sources.config.loader import LoadedPipeline, load_pipeline
from tests.services.processes import wait_for

ROOT = Path(__file__).parents[2]
LOCATION = "hybrid_backfill"
# A busy machine starts a JVM in half a minute, and a chain needs several of its things.
PATIENCE_S = 480


class Site(NamedTuple):
    """A running UI.

    Attributes:
        url: Where it is.
        servers: The broker.
        pipelines: What it shows, by name.
        later: What the feed goes on with; it is in no topic yet.
    """

    url: str
    servers: str
    pipelines: dict[str, LoadedPipeline]
    later: list[flight_data.FeedRecord]

    def job(self, name: str) -> str:
        """The page of a job."""
        return f"{self.url}/locations/{LOCATION}/jobs/{name}"

    def asset(self, pipeline: str, step: str, view: str = "overview") -> str:
        """A page of an asset."""
        return f"{self.url}/assets/{pipeline}/{step}?view={view}"

    def delete_records(self, topic: str) -> None:
        """Delete all records of a topic, as retention would."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        parts = admin.list_topics(topic).topics[topic].partitions
        # -1: up to the end.
        ends = [TopicPartition(topic, part, -1) for part in parts]
        for done in admin.delete_records(ends).values():
            done.result()


@contextmanager
def site(
    folder: Path,
    pipelines: Mapping[str, Mapping[str, Any]],
    since: datetime,
    until: datetime,
    history: Mapping[str, Any] | None = None,
) -> Iterator[Site]:
    """A broker, history and feed of some days, and Dagster with its daemon.

    Args:
        folder: Is filled.
        pipelines: What each has otherwise than `examples/flight_events.yaml`, by name. Each has a
            topic of its own, of its name.
        since: History before that is left out.
        until: The feed ends there.
        history: What their source of files has otherwise; a day is a file.
    """
    with ExitStack() as cleanup:
        broker = cleanup.enter_context(LocalBroker())
        for file in flight_data.write_history(folder / "data" / "history"):
            day = datetime.fromisoformat(file.parent.name.removeprefix("day=")).replace(tzinfo=UTC)
            if day < since:
                shutil.rmtree(file.parent)
        feed, later = flight_data.split_feed(flight_data.feed_records(), until)
        declared = folder / "pipelines"
        shutil.copytree(ROOT / "examples", declared, ignore=shutil.ignore_patterns("*.yaml"))
        loaded = {}
        for name, changes in pipelines.items():
            flight_data.create_feed_topic(broker.bootstrap_servers, name)
            flight_data.produce(feed, broker.bootstrap_servers, name)
            servers = broker.bootstrap_servers
            loaded[name] = _declare(declared, name, servers, folder, history or {}, changes)
            cleanup.callback(stopping.stop, loaded[name])
        url = cleanup.enter_context(dagster_ui(folder, declared))
        yield Site(url, broker.bootstrap_servers, loaded, later)


def _declare(
    declared: Path,
    name: str,
    servers: str,
    folder: Path,
    files: Mapping[str, Any],
    changes: Mapping[str, Any],
) -> LoadedPipeline:
    document = yaml.safe_load((ROOT / "examples" / "flight_events.yaml").read_text())
    history, live = document["sources"]
    path = folder / "data" / "history" / "**" / "*.parquet"
    history |= {"path": str(path), **files}
    live |= {"topic": name, "bootstrap_servers": servers}
    sink = {**document["sink"], "path": str(folder / "tables" / name)}
    own = {"name": name, "sink": sink, "state": str(folder / "state"), **changes}
    path = declared / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**document, **own}, sort_keys=False))
    return load_pipeline(path)


@contextmanager
def dagster_ui(folder: Path, *declared: Path) -> Iterator[str]:
    """Dagster's web server and daemon, with the pipelines of these files and folders."""
    home, log = folder / "dagster", folder / "dagster.log"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    [port] = free_ports(1)
    environment = {
        "DAGSTER_HOME": str(home),
        "HYBRID_PIPELINES": os.pathsep.join(map(str, declared)),
        "PYTHONPATH": str(ROOT),
        "VIRTUAL_ENV": sys.prefix,
        "PATH": os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ["PATH"]]),
    }
    words = [f"{name}={value}" for name, value in environment.items()]
    command = ["dg", "dev", "-w", "workspace.yaml", "-h", HOST, "-p", str(port)]
    started = spawn(["env", "-C", str(ROOT), *words, *command], log)
    url = f"http://{HOST}:{port}"

    def is_up() -> bool:
        assert started.poll() is None, last_lines(log.read_bytes())
        try:
            return bool(urllib.request.urlopen(f"{url}/server_info", timeout=5).status == 200)
        except (urllib.error.URLError, OSError):
            return False

    try:
        wait_for(is_up, "Dagster's UI to answer", PATIENCE_S)
        yield url
    finally:
        end(started)


@contextmanager
def browser() -> Iterator[Browser]:
    """A real Chromium without a window."""
    chromium = obtain(CHROMIUM)
    with TemporaryDirectory() as folder, ExitStack() as cleanup:
        # Playwright's program, which starts the browser, finds libraries and fonts nowhere else.
        with pytest.MonkeyPatch.context() as patch:
            for libraries in chromium.libraries:
                patch.setenv("LD_LIBRARY_PATH", str(libraries), prepend=os.pathsep)
            if chromium.libraries:
                patch.setenv("FONTCONFIG_FILE", str(_describe_fonts(chromium.root, Path(folder))))
            playwright = cleanup.enter_context(sync_playwright())
        started = playwright.chromium.launch(
            executable_path=chromium.paths["chromium-headless-shell"],
            args=["--no-sandbox", "--disable-gpu"],
        )
        cleanup.callback(started.close)
        yield started


def _describe_fonts(root: Path, folder: Path) -> Path:
    """Write which fonts there are, and which of them `serif` and `monospace` are."""
    kinds = root / "usr" / "share" / "fontconfig" / "conf.avail"
    file = folder / "fonts.conf"
    file.write_text(
        f"<fontconfig><dir>{root / 'usr' / 'share' / 'fonts'}</dir><cachedir>{folder}</cachedir>"
        f"<include>{kinds / '45-latin.conf'}</include>"
        f"<include>{kinds / '60-latin.conf'}</include></fontconfig>"
    )
    return file
