"""A real Airflow in an environment of its own, in the cache folder; made once, then found again."""

from __future__ import annotations

import fcntl
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from hybrid_extensions.servers.server_programs import MissingServerError
from sources.common.cache import cache_folder

VERSION = "3.3.2"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PROVIDER = Path(__file__).parents[2] / "integrations" / "airflow"
# The versions that Airflow's own tests ran with.
_CONSTRAINTS = (
    f"https://raw.githubusercontent.com/apache/airflow/constraints-{VERSION}/"
    f"constraints-{PYTHON}.txt"
)
_CONSTRAINTS_S = 20.0


def install() -> Path:
    """The folder of Airflow's programs; several processes may ask at once.

    Airflow's constraints decide about the versions of its packages; where they can't be downloaded,
    pip does.
    """
    folder = cache_folder() / f"airflow-{VERSION}-python-{PYTHON}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # An environment can't be moved to its place once it is whole: its programs name the place.
        is_whole = folder / "whole"
        if not is_whole.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(folder)])
            constraints = _download_constraints(folder)
            limits = ["--constraint", str(constraints)] if constraints else []
            command = _pip(folder, [*limits, f"apache-airflow=={VERSION}"])
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise MissingServerError("Airflow", done.stderr.strip(), shlex.join(command))
            is_whole.touch()
    return folder / "bin"


def install_provider(into: Path) -> Path:
    """This project's provider, installed as users do, but in a folder for ``PYTHONPATH``."""
    copy = into / "source"
    # pip builds in the folder that it installs from.
    shutil.copytree(PROVIDER, copy, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    _run(_pip(install().parent, ["--no-deps", "--target", str(into / "packages"), str(copy)]))
    return into / "packages"


def _download_constraints(folder: Path) -> Path | None:
    file = folder / "constraints.txt"
    try:
        with urllib.request.urlopen(_CONSTRAINTS, timeout=_CONSTRAINTS_S) as answer:
            file.write_bytes(answer.read())
    except urllib.error.URLError:
        return None
    return file


def _pip(environment: Path, rest: list[str]) -> list[str]:
    return [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", *rest]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stderr}"
