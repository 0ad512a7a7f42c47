"""Benchmark: time to load Dagster's definitions and to run all sensors, by number of pipelines.

    python -m benchmarks.pipelines

The state of each pipeline shows a healthy live run, which does not really run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import yaml

from benchmarks.record import record
from sources.config.loader import declare
from tests.orchestration.supervision.live_case import LiveCase, sensor_of

ROUNDS = 3


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, nargs="+", default=[1, 10, 100])
    options = parser.parse_args()
    results = []
    for count in options.pipelines:
        with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name:
            result = _measure(Path(name), count)
        results.append(result)
        sys.stdout.write(f"{json.dumps(result)}\n")
        sys.stdout.flush()
    record("pipelines", results)


def _measure(folder: Path, count: int) -> dict[str, float]:
    """Create a number of pipelines, and measure loading them and a tick of all their sensors."""
    (folder / "all").mkdir()
    cases = [_create_case(folder, number) for number in range(count)]
    loads = [_load_s(folder / "all") for _ in range(ROUNDS)]
    sensors = [sensor_of(case.loaded) for case in cases]
    ticks = []
    with ExitStack() as running, dg.DagsterInstance.ephemeral() as instance:
        for case in cases:
            running.enter_context(case.alive())
        for _ in range(ROUNDS + 1):
            started = time.monotonic()
            for sensor in sensors:
                sensor(dg.build_sensor_context(instance=instance))
            ticks.append(time.monotonic() - started)
    # The first tick also imports modules.
    tick_s = statistics.median(ticks[1:])
    return {
        "pipelines": count,
        "load_s": round(statistics.median(loads), 2),
        "tick_s": round(tick_s, 3),
        "tick_ms_per_pipeline": round(tick_s / count * 1000, 1),
    }


def _create_case(folder: Path, number: int) -> LiveCase:
    """Create a pipeline whose live run has nothing to read."""
    home = folder / f"{number:03}"
    home.mkdir()
    case = LiveCase(home)
    document = yaml.safe_load(case.path.read_text())
    sources = [{**each, "path": str(home / each["path"])} for each in document["sources"]]
    document |= {
        "name": f"events_{number:03}",
        "sources": sources,
        "sink": {**document["sink"], "path": str(home / "out")},
        "state": str(home / "state"),
    }
    case.path = folder / "all" / f"{document['name']}.yaml"
    case.loaded = declare(case.path, document)
    generation = case.loaded.open_generation(create=True)
    assert generation is not None
    case.generation = generation
    case.ask_for_it()
    case.launch("a")
    return case


def _load_s(folder: Path) -> float:
    """Return how long a new process takes to load the definitions of a folder, in seconds."""
    code = "from orchestration.definitions import defs\ndefs.get_repository_def().get_all_jobs()\n"
    started = time.monotonic()
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "HYBRID_PIPELINES": str(folder)},
        check=True,
    )
    return time.monotonic() - started


if __name__ == "__main__":
    main()
