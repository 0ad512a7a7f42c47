"""CPU profile of Spark's tasks by stage of the work, sampled by the JVM's Flight Recorder."""

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
# Names of Spark's task threads contain this; a sometimes stale description of their work follows.
_TASKS = "Executor task "
# Methods in which a task waits for the socket of a broker or of a Python worker.
_WAITING = ("sun.nio.ch.EPoll.wait", "sun.nio.ch.SocketDispatcher.read0", "java.net.SocketInput")


@dataclass(frozen=True)
class Profile:
    """CPU profile of the task threads of a JVM.

    Attributes:
        samples: Number of samples.
        stages: Share of samples by stage, the largest first; the shares sum to 1.
        methods: Share of samples by the method at the top of the stack, the largest first.
    """

    samples: int
    stages: dict[str, float]
    methods: dict[str, float]


def profile(
    pid: int, work: Callable[[], object], stages: Mapping[str, Sequence[str]], methods: int = 15
) -> Profile:
    """Profile the task threads of a JVM while it does some work.

    Args:
        pid: Process id of the JVM.
        work: Function that makes the JVM work.
        stages: By name of a stage, prefixes of the class names that belong to it. A sample is
            assigned to the stage of the innermost frame that belongs to any.
        methods: Largest number of methods in the profile.

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
        command = ["jfr", "print", "--json", "--stack-depth", "64", "--events", _SAMPLES]
        printed = subprocess.run([*command, str(recorded)], check=True, capture_output=True)
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
        {name: round(count / total, 4) for name, count in by_method.most_common(methods)},
    )


def _jcmd(pid: int, *command: str) -> None:
    """Send a JVM a diagnostic command."""
    subprocess.run(["jcmd", str(pid), *command], check=True, capture_output=True)


def _frames(values: Mapping[str, Any]) -> list[str]:
    """Return ``package.Class.method`` of each stack frame of a sample, the innermost first."""
    trace = values["stackTrace"] or {"frames": []}
    methods = (frame["method"] for frame in trace["frames"])
    return [f"{each['type']['name'].replace('/', '.')}.{each['name']}" for each in methods]


def _stage(frames: Sequence[str], stages: Mapping[str, Sequence[str]]) -> str:
    """Return the stage of a sample; ``other`` if no frame belongs to one."""
    if frames[0].startswith(_WAITING):
        return "waiting for the network"
    for frame in frames:
        for name, prefixes in stages.items():
            if frame.startswith(tuple(prefixes)):
                return name
    return "other"
