"""What a benchmark found: ``build/bench/<name>.json``, with its command and the machine."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path("build") / "bench"
_LOAD = os.getloadavg()[0]  # before the benchmark itself makes any
_PACKAGES = ("pyspark", "deltalake", "pyarrow", "dagster", "confluent-kafka")


def record(name: str, result: Any, command: str | None = None) -> None:
    """Write down what was found.

    Args:
        name: Of the benchmark; the file's.
        result: Its figures, as JSON takes them.
        command: What makes such figures; this process's own, if left out.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = {"command": command or _command(), "machine": _machine(), "result": result}
    (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def _command() -> str:
    spec = sys.modules["__main__"].__spec__
    module = Path(sys.argv[0]).stem if spec is None else spec.name
    return " ".join(["python -m", module, *sys.argv[1:]])


def _machine() -> dict[str, Any]:
    return {
        "day": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": _line("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory": _line("/proc/meminfo", "MemTotal"),
        "load before": round(_LOAD, 2),
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }


def _line(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
