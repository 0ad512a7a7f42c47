"""Records of benchmark results: ``build/bench/<name>.json``, with command and machine."""

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
_LOAD = os.getloadavg()[0]  # of one minute, before the benchmark itself adds to it
_PACKAGES = ("pyspark", "deltalake", "pyarrow", "dagster", "confluent-kafka")


def record(name: str, result: Any, command: str | None = None) -> None:
    """Write the result of a benchmark to ``build/bench`` in the current folder.

    Args:
        name: Name of the benchmark, and of the file.
        result: Its figures, of types that JSON can represent.
        command: Command that produces such figures; the one of this process, if left out.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = {"command": command or _command(), "machine": _machine(), "result": result}
    (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def _command() -> str:
    """Return the command line of this process as ``python -m <module> <arguments>``."""
    spec = sys.modules["__main__"].__spec__
    module = Path(sys.argv[0]).stem if spec is None else spec.name.removesuffix(".__main__")
    return " ".join(["python -m", module, *sys.argv[1:]])


def _machine() -> dict[str, Any]:
    """Return day, processor, cores, memory, load, and versions of Python and packages."""
    return {
        "day": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "load before": round(_LOAD, 2),
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }


def _field(path: str, name: str) -> str | None:
    """Return the value of the first ``name: value`` line of a file; None if there is none."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
