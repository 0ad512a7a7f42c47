"""Names in Python and outside that others rely on: those that docs/versions.md lists."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import griffe
import pytest
import typer
import yaml

from orchestration.cli.main import app
from tests.extensions import whole
from tests.names_page import ADD, ROOT, Row, require_same, rows

PACKAGES = [
    "feeds",
    "hybrid_extensions",
    "hybrid_testing",
    "orchestration",
    "services",
    "sources",
    "spark_jobs",
]
AIRFLOW = ROOT / "integrations" / "airflow"
IN_PYTHON = rows("Python")


@whole
@pytest.mark.parametrize("row", IN_PYTHON, ids=lambda row: row[0][0])
def test_each_name_in_python_exists_and_takes_these_arguments(row: Row) -> None:
    (name,), arguments = row
    found = imported(name)
    if inspect.isclass(found) or inspect.isfunction(found):
        taken = [each for each in inspect.signature(found).parameters if each != "self"]
        assert (taken or ["none"]) == arguments, ADD
    else:
        assert arguments == ["a value"]


def imported(name: str) -> Any:
    """What a dotted name names: something of a module, or of a class there."""
    module, _, rest = name.partition(".")
    found: Any = importlib.import_module(module)
    for part in rest.split("."):
        if inspect.ismodule(found) and not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found


def test_what_the_pages_import_from_the_project_is_listed() -> None:
    line = re.compile(rf"^ *from ((?:{'|'.join(PACKAGES)})\b[\w.]*) import (\w+)$", re.MULTILINE)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = {".".join(each.groups()) for page in pages for each in line.finditer(page.read_text())}
    assert "hybrid_extensions.cuts.table.read_cut" in found
    assert sorted(found - {name for (name,), _ in IN_PYTHON}) == [], ADD


@pytest.mark.parametrize("row", rows("Airflow"), ids=lambda row: row[0][0])
def test_each_class_for_airflow_exists_and_takes_these_arguments(row: Row) -> None:
    (name,), arguments = row
    module, _, part = name.rpartition(".")
    # Not imported: Airflow is installed in an environment of its own.
    found = griffe.load(module, search_paths=[AIRFLOW])[part]
    assert isinstance(found, griffe.Class)
    taken = [each.name for each in found.parameters]
    assert [each for each in taken if each not in {"self", "rest"}] == arguments, ADD


def test_dagster_loads_the_definitions_that_the_workspace_names() -> None:
    (place,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    found = place["python_file"]
    assert [[found["relative_path"]], [found["location_name"]]] in rows("Dagster's workspace")
    assert (ROOT / found["relative_path"]).is_file()


@whole
def test_the_commands_and_their_options_are_listed() -> None:
    there = dict(commands(typer.main.get_command(app), "hybrid"))
    listed = {name: set(options) for (name,), options in rows("Commands")}
    require_same("Commands", set(listed), set(there))
    for name, options in there.items():
        require_same(f"Options of `{name}`", listed[name], options or {"none"})


def commands(command: Any, name: str) -> Iterator[tuple[str, set[str]]]:
    """Each command from one on, with its arguments in capitals, and its options."""
    if below := getattr(command, "commands", None):
        for word, each in below.items():
            yield from commands(each, f"{name} {word}")
        return
    arguments = [str(each.name) for each in command.params if each.param_type_name == "argument"]
    options = {
        name
        for each in command.params
        if each.param_type_name == "option"
        for name in each.opts
        if name.startswith("--")
    }
    yield " ".join([name, *map(str.upper, arguments)]), options


@pytest.mark.parametrize("row", rows("Files that are run by path"), ids=lambda row: row[0][0])
def test_each_file_that_is_run_by_its_path_takes_these_options(row: Row) -> None:
    (name,), options = row
    text = (ROOT / name).read_text()
    assert '\nif __name__ == "__main__":\n' in text
    assert (re.findall(r'add_argument\("(--[\w-]+)"', text) or ["none"]) == options, ADD


def test_the_extras_are_listed() -> None:
    listed = {name for (name,), _ in rows("Extras")}
    require_same("Extras", listed, set(project(ROOT)["optional-dependencies"]))


def test_the_entry_points_are_listed() -> None:
    declared = {
        f"{group}: {name} = {value}"
        for folder in (ROOT, AIRFLOW)
        for group, entries in declared_entry_points(folder)
        for name, value in entries.items()
    }
    listed = {f"{group}: {name} = {value}" for (name,), (value,), (group,) in rows("Entry points")}
    require_same("Entry points", listed, declared)


def test_each_entry_point_of_the_project_can_be_loaded() -> None:
    for group, entries in declared_entry_points(ROOT):
        for name in entries:
            assert [each.load() for each in entry_points(group=group, name=name)], name


def declared_entry_points(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Groups of entry points of a project, with what each has."""
    yield "console_scripts", project(folder).get("scripts", {})
    yield from project(folder).get("entry-points", {}).items()


def project(folder: Path) -> dict[str, Any]:
    """What a project says of itself."""
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


@whole
def test_the_environment_variables_that_the_packages_read_are_listed() -> None:
    files = [file for name in PACKAGES for file in sorted((ROOT / name).rglob("*.py"))]
    text = "\n".join(file.read_text() for file in files)
    read = set(re.findall(r'(?:environ(?:\.get\(|\[)|_VARIABLE = )"(HYBRID_\w+)"', text))
    require_same("Variables", {name for (name,), _ in rows("Environment variables")}, read)
