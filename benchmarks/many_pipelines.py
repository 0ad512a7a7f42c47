"""Benchmark: many pipelines in one code location, loaded, and seen in Dagster's UI by a browser.

    python -m benchmarks.many_pipelines

Nothing is read or run: the pages show what is declared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml
from playwright.sync_api import Page

from benchmarks.record import record
from tests.browser.site import LOCATION, PATIENCE_S, ROOT, browser, dagster_ui

ROUNDS = 3
_TEAMS = ["team:sales", "team:logistics", "team:finance"]
_DOMAINS = ["orders", "stock"]
_LOAD = "from orchestration.definitions import defs\ndefs.get_repository_def().get_all_jobs()\n"


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=50)
    count = parser.parse_args().pipelines
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name:
        folder = Path(name)
        names = write_pipelines(folder / "pipelines", count)
        result = {"pipelines": count, **_load(folder / "pipelines")}
        with dagster_ui(folder, folder / "pipelines") as url, browser() as chromium:
            page = chromium.new_page(viewport={"width": 1600, "height": 1000})
            result |= dict(_pages(page, url, names))
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")
    record("many_pipelines", result)


def write_pipelines(folder: Path, count: int) -> list[str]:
    """Write pipelines like `examples/flight_events.yaml`, of three teams and two domains.

    Args:
        folder: Is made.
        count: How many.

    Returns:
        Their names.
    """
    folder.mkdir()
    document = yaml.safe_load((ROOT / "examples" / "flight_events.yaml").read_text())
    names = [f"table_{number:03}" for number in range(count)]
    for number, name in enumerate(names):
        about = {
            "owners": [_TEAMS[number % len(_TEAMS)]],
            "tags": {"domain": _DOMAINS[number % len(_DOMAINS)]},
        }
        sink = {**document["sink"], "path": f"tables/{name}"}
        own = {"name": name, "sink": sink, "about": about, "ranges": {"start": "2024-01-01"}}
        text = yaml.safe_dump({**document, **own}, sort_keys=False)
        (folder / f"{name}.yaml").write_text(text)
    return names


def _load(folder: Path) -> dict[str, float]:
    """Return what a new process needs to load the definitions: elapsed and CPU seconds."""
    elapsed, cpu = [], []
    for _ in range(ROUNDS):
        started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _LOAD],
            env={**os.environ, "HYBRID_PIPELINES": str(folder)},
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        elapsed.append(time.monotonic() - started)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {
        "load_s": round(statistics.median(elapsed), 2),
        "load_cpu_s": round(statistics.median(cpu), 2),
    }


def _pages(page: Page, url: str, names: list[str]) -> Iterator[tuple[str, float]]:
    """Yield the seconds until each page shows a pipeline; the first visit only fills caches."""
    first = names[0]
    location = f"{url}/locations/{LOCATION}"
    pages = {
        "jobs_s": (f"{location}/jobs", first),
        "catalog_s": (f"{url}/assets?asset-selection=*", first),
        "graph_s": (f"{url}/asset-groups", first),
        "group_s": (f"{location}/asset-groups/{first}", "history"),
    }
    for name, (address, text) in pages.items():
        seconds = []
        for _ in range(ROUNDS + 1):
            page.goto("about:blank")
            started = time.monotonic()
            page.goto(address)
            page.get_by_text(text, exact=True).first.wait_for(timeout=PATIENCE_S * 1000)
            seconds.append(time.monotonic() - started)
        yield name, round(statistics.median(seconds[1:]), 2)


if __name__ == "__main__":
    main()
