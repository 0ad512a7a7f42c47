"""What a JVM's tasks spend their time on: samples by its own Flight Recorder, by stage."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SAMPLES = "jdk.ExecutionSample,jdk.NativeMethodSample"
# Spark names the threads of its tasks so; what they do at the moment follows, sometimes stale.
_TASKS = "Executor task "
# In a task but waiting for somebody else: a socket of the broker, or a worker's.
_WAITING = ("sun.nio.ch.EPoll.wait", "sun.nio.ch.SocketDispatcher.read0", "java.net.SocketInput")


@dataclass(frozen=True)
class Profile:
    """Samples of a JVM's tasks.

    Attributes:
        samples: How many there are.
        stages: Share of each stage, the largest first; sums to 1.
        methods: Share of the methods that were on top of the stack, the largest first.
    """

    samples: int
    stages: dict[str, float]
    methods: dict[str, float]


def profile(
    pid: int, work: Callable[[], object], stages: Mapping[str, Sequence[str]], most: int = 15
) -> Profile:
    """Sample a JVM while something is done in it.

    Args:
        pid: Of the JVM.
        work: What is done.
        stages: By name, how class names begin that belong to it. A sample belongs to the stage of
            the innermost frame that belongs to any.
        most: How many methods are told.

    Raises:
        CalledProcessError: The JVM has no Flight Recorder.
    """
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as folder:
        recorded = Path(folder) / "samples.jfr"
        _jcmd(pid, "JFR.start", "name=hybrid", "settings=profile")
        try:
            work()
        finally:
            _jcmd(pid, "JFR.stop", "name=hybrid", f"filename={recorded}")
        told = ["jfr", "print", "--json", "--stack-depth", "64", "--events", _SAMPLES]
        printed = subprocess.run([*told, str(recorded)], check=True, capture_output=True)
    by_stage: Counter[str] = Counter()
    by_method: Counter[str] = Counter()
    for event in json.loads(printed.stdout)["recording"]["events"]:
        values = event["values"]
        thread = values["sampledThread"] or {}
        frames = _frames(values)
        if _TASKS in (thread.get("javaName") or "") and frames:
            by_stage[_stage(frames, stages)] += 1
            by_method[frames[0]] += 1
    total = sum(by_stage.values())
    return Profile(
        total,
        {name: round(count / total, 4) for name, count in by_stage.most_common()},
        {name: round(count / total, 4) for name, count in by_method.most_common(most)},
    )


def _jcmd(pid: int, *command: str) -> None:
    subprocess.run(["jcmd", str(pid), *command], check=True, capture_output=True)


def _frames(values: Mapping[str, Any]) -> list[str]:
    """``package.Class.method`` of each frame, the innermost first."""
    trace = values["stackTrace"] or {"frames": []}
    methods = (frame["method"] for frame in trace["frames"])
    return [f"{each['type']['name'].replace('/', '.')}.{each['name']}" for each in methods]


def _stage(frames: Sequence[str], stages: Mapping[str, Sequence[str]]) -> str:
    if frames[0].startswith(_WAITING):
        return "waiting for the network"
    for frame in frames:
        for name, prefixes in stages.items():
            if frame.startswith(tuple(prefixes)):
                return name
    return "other"
