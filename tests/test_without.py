"""Nothing else misses an extension whose folder is deleted: its tests pass in a copy without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.without import copy_without, main, run_tests, with_dependents

pytestmark = pytest.mark.slow
WHAT_LOADS_ALL = [
    "tests/test_imports.py",
    "tests/test_project.py",
    "tests/test_docs.py",
    "tests/sources/config",
    "tests/orchestration/cli",
    "tests/orchestration/test_definitions.py",
    "tests/orchestration/defs",
]
"""What imports and loads everything: declarations, command line, definitions, pages."""


@pytest.mark.parametrize("extension", ["feeds", "cdc"])
def test_nothing_else_misses_an_extension(extension: str, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    copy_without(with_dependents([extension]), folder)
    assert not (folder / "hybrid_extensions" / extension).exists()
    assert run_tests(folder, ["-m", "not slow", "-q", *WHAT_LOADS_ALL]) == 0


def test_those_that_stand_on_an_extension_are_left_out_with_it() -> None:
    assert with_dependents(["feeds"]) == ["feeds"]
    assert {"cdc", "mariadb", "postgres"} <= {*with_dependents(["cdc"])}
    assert {"generations", "upkeep"} <= {*with_dependents(["comparison"])}


def test_what_misses_an_extension_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    copy_without(["feeds"], folder)
    needy = folder / "sources" / "config" / "loader.py"
    needy.write_text(f"{needy.read_text()}\nimport hybrid_extensions.feeds.declare\n")
    assert run_tests(folder, ["-q", "tests/orchestration/test_definitions.py"]) != 0


def test_an_extension_that_is_not_there_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["feeds", "nothing", "--"]) == 2
    assert "hybrid_extensions has no `nothing`. Name extensions: adopt," in capfd.readouterr().err
