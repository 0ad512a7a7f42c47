"""A real Prometheus on this machine, which scrapes one endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import yaml

from hybrid_extensions.servers.process import HOST, end, free_ports, spawn
from hybrid_extensions.servers.server_programs import PROMETHEUS, obtain
from tests.services.processes import wait_for


class Prometheus:
    """A running Prometheus.

    Attributes:
        url: Its address.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression of PromQL has now."""
        answer = requests.get(f"{self.url}/api/v1/query", {"query": expression}, timeout=10)
        document = answer.json()
        assert document["status"] == "success", document
        found: list[dict[str, Any]] = document["data"]["result"]
        return found


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Scrape a URL every second, until the end of the block."""
    program = obtain(PROMETHEUS).paths["prometheus"]
    place = urlsplit(target)
    scrape = {
        "job_name": "hybrid",
        "metrics_path": place.path,
        "static_configs": [{"targets": [place.netloc]}],
    }
    document = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(document))
    [port] = free_ports(1)
    running = Prometheus(f"http://{HOST}:{port}")
    process = spawn(
        [
            str(program),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={HOST}:{port}",
        ],
        folder / "prometheus.log",
    )
    try:
        wait_for(lambda: _is_ready(running.url), "Prometheus", 30)
        yield running
    finally:
        end(process)


def _is_ready(url: str) -> bool:
    try:
        return bool(requests.get(f"{url}/-/ready", timeout=1).ok)
    except requests.RequestException:
        return False
