"""A copy of the project without some extensions, in which tests run: nothing else may miss them.

``python -m tests.without feeds -- -m "not slow"`` runs pytest there, and exits by its result. The
copy has what Git tracks, as it is in the working tree, but no folder of the named extensions, and
none of their tests; nor those of the extensions that may import them, by the contract in
``pyproject.toml``. ``tests/extensions.py`` skips what shows an extension that is not there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_ROOMS = ("hybrid_extensions", "tests/hybrid_extensions")
_CONTRACT = "Extensions do not know each other"
_ALLOWED = r"hybrid_extensions\.(\w+)\.\*\* -> hybrid_extensions\.(\w+)\.\*\*"
_EXTENSIONS = _ROOT / "hybrid_extensions"


def copy_without(extensions: Collection[str], folder: Path) -> None:
    """Copy the tracked files of this checkout into a new folder, without some extensions.

    Args:
        extensions: Names of folders in ``hybrid_extensions``.
        folder: The folder to create; an older copy in it is removed.
    """
    left_out = tuple(f"{room}/{name}/" for room in _ROOMS for name in extensions)
    shutil.rmtree(folder, ignore_errors=True)
    for name in _tracked():
        if name.startswith(left_out) or not (_ROOT / name).is_file():
            continue
        copied = folder / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(_ROOT / name, copied)


def with_dependents(extensions: Collection[str]) -> list[str]:
    """Return extensions and those that may import them, directly or by way of others.

    A copy without them lacks these, too.

    Args:
        extensions: Names of folders in ``hybrid_extensions``.
    """
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["name"] == _CONTRACT)
    allowed = re.findall(_ALLOWED, "\n".join(contract["ignore_imports"]))
    found = {*extensions}
    while dependents := {importer for importer, imported in allowed if imported in found} - found:
        found |= dependents
    return sorted(found)


_NO_ORIGINAL = """import sys

sys.meta_path[:] = [
    each for each in sys.meta_path if not getattr(each, "__module__", "").startswith("__editable__")
]
"""


def run_tests(folder: Path, arguments: Sequence[str]) -> int:
    """Run pytest in a copy, whose packages come before installed ones; return its exit status.

    Args:
        folder: The copy.
        arguments: Arguments of pytest.
    """
    # An editable installation would find in the original what the copy lacks.
    (folder / "sitecustomize.py").write_text(_NO_ORIGINAL)
    # Processes that tests start in other folders import the copy, too.
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    """Run tests without the extensions that are named before ``--``; return the exit status."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    names = arguments[:at]
    unknown = [name for name in names if not (_EXTENSIONS / name / "__init__.py").is_file()]
    if unknown or not names:
        there = sorted(each.parent.name for each in _EXTENSIONS.glob("*/__init__.py"))
        what = f"has no `{unknown[0]}`" if unknown else "is to be copied without some of its rooms"
        sys.stderr.write(f"hybrid_extensions {what}. Name extensions: {', '.join(there)}.\n")
        return 2
    folder = _ROOT / "build" / f"without-{'-'.join(names)}"
    copy_without(with_dependents(names), folder)
    return run_tests(folder, arguments[at + 1 :])


def _tracked() -> list[str]:
    """Return the names of all files that Git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return [name for name in listed.stdout.split("\0") if name]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
