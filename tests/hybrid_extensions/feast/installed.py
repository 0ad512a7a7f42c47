"""A real Feast in an environment of its own, in the cache folder; made once, then found again."""

from __future__ import annotations

import fcntl
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from hybrid_extensions.servers.server_programs import MissingServerError
from sources.common.cache import cache_folder

VERSION = "0.67.0"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def install() -> Path:
    """The folder of Feast's programs; several processes may ask at once."""
    folder = cache_folder() / f"feast-{VERSION}-python-{PYTHON}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # An environment can't be moved to its place once it is whole: its programs name the place.
        is_whole = folder / "whole"
        if not is_whole.exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            into = ["--python", str(folder / "bin" / "python"), f"feast[delta,duckdb]=={VERSION}"]
            command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", *into]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise MissingServerError("Feast", done.stderr.strip(), shlex.join(command))
            is_whole.touch()
    return folder / "bin"
