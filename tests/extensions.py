"""Extensions that this checkout lacks, and which tests are skipped for it, each by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from inspect import currentframe
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[1]
LISTED = re.findall(
    r"^\| `(\w+)` \|", (_ROOT / "docs" / "extensions.md").read_text().partition("## ")[0], re.M
)
LACKING = [name for name in LISTED if not (_ROOT / "hybrid_extensions" / name).is_dir()]
whole = pytest.mark.skipif(
    bool(LACKING), reason=f"it is about the whole project, which lacks {', '.join(LACKING)}"
)
"""Marks a test that compares a page or a kept state with the whole project."""

_OF_FILES = {
    "csv": "text_files", "delta": "delta_history", "json": "text_files", "text": "text_files",
}  # fmt: skip
"""Extensions that read a format of files, if they have another name."""


def needs(name: str) -> pytest.MarkDecorator:
    """Mark of a test that declares what an extension adds."""
    return pytest.mark.skipif(name in LACKING, reason=_reason(name))


_ASIDE = ("benchmarks", "examples", "hybrid_testing", "tests")
"""Folders that may know extensions by their names."""

_OWN_KINDS = ("slotted://", "logged://")
"""Addresses of databases of ``tests/own_extension``, which need no extension of a kind."""


def skip_without(name: str) -> None:
    """Skip the test, or the module, that calls it if it needs an extension that is lacking."""
    if name in LACKING:
        pytest.skip(_reason(name), allow_module_level=True)


def skip_without_those_of(declared: Mapping[str, Any]) -> None:
    """Skip the test that calls it if sources of a pipeline's file need what is lacking."""
    for source in declared["sources"] if LACKING else ():
        dsn = source.get("snapshot", {}).get("dsn", "")
        form = source.get("format", "")
        of_files = _OF_FILES.get(form, form) if source.get("type") == "files" else form
        skip_without(of_files)
        skip_without("held_offsets" if "offsets" in source else "")
        skip_without("cdc" if source.get("format") == "debezium" or dsn else "")
        skip_without("avro" if "registry" in source else "")
        if dsn and not dsn.startswith(_OWN_KINDS):
            skip_without("mariadb" if re.match("mariadb:|mysql:", dsn) else "postgres")


class _Lacking(MetaPathFinder):
    """Skips what imports an extension that is not there, or a test of it, if that is a test.

    The core must not.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        package, _, rest = fullname.removeprefix("tests.").partition(".")
        name = rest.partition(".")[0]
        if package == "hybrid_extensions" and name in LACKING and _importer() in _ASIDE:
            pytest.skip(_reason(name), allow_module_level=True)


def _importer() -> str | None:
    """Folder of the project with the line that imports; None if it is in none."""
    frame = currentframe()
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(_ROOT) and file != Path(__file__):
            return file.relative_to(_ROOT).parts[0]
        frame = frame.f_back
    return None


def _reason(name: str) -> str:
    return f"it needs the extension `{name}`, which this checkout lacks"


if LACKING:
    sys.meta_path.insert(0, _Lacking())
