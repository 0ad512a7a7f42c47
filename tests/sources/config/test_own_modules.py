"""Modules of several pipelines in one process."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sources.config.code.own_modules import OwnModules
from sources.config.code.reserved_names import RESERVED
from sources.config.code.user_functions import load_function
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from tests.spark_jobs.launch.launch_case import pipeline

ROOT = Path(__file__).parents[3]
CODE = """
import json
import helper
from parts import part

WORD = "{word}"

def identity(rows):
    return [WORD, helper.WORD, part.WORD, json.dumps(rows)]
"""


def declared(folder: Path, word: str) -> LoadedPipeline:
    """A pipeline with a function that uses a module and a package next to it."""
    folder.mkdir(exist_ok=True)
    loaded = pipeline(folder, {})
    (folder / "transforms.py").write_text(CODE.format(word=word))
    (folder / "helper.py").write_text(f"WORD = {word!r}\n")
    # A package without an `__init__.py`.
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "parts" / "part.py").write_text(f"WORD = {word!r}\n")
    return LoadedPipeline(loaded.path, loaded.pipeline, modules=OwnModules())


def load_transform(loaded: LoadedPipeline) -> Callable[[Any], Any]:
    """The function that its declaration names."""
    return load_function(loaded, "transform", loaded.pipeline.transform.name)


@pytest.fixture(autouse=True)
def _modules_of_others() -> Iterator[None]:
    """Modules that a test imports as usual are not there for the next one, nor their folders."""
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"transforms", "helper", "parts"}:
            del sys.modules[name]


def test_code_that_needs_a_session_while_it_is_imported_is_told_where_it_belongs(
    tmp_path: Path,
) -> None:
    loaded = declared(tmp_path / "one", "one")
    code = "raise RuntimeError('[SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext should be created.')"
    (tmp_path / "one" / "transforms.py").write_text(code)
    with pytest.raises(InputError, match="SESSION") as caught:
        load_function(loaded, "transform", "transforms:identity")
    assert caught.value.message.endswith(" created.")
    assert "within `identity`" in caught.value.hint


def test_each_pipeline_has_its_own_modules_of_a_name(tmp_path: Path) -> None:
    # One that was imported as usual before.
    load_transform(replace(declared(tmp_path / "before", "before"), modules=None))
    before = set(sys.modules)
    one, two = declared(tmp_path / "a", "one"), declared(tmp_path / "b", "two")
    functions = [load_transform(each) for each in (one, two, one)]
    assert [function(1) for function in functions] == [
        ["one"] * 3 + ["1"],
        ["two"] * 3 + ["1"],
        ["one"] * 3 + ["1"],
    ]
    # Loaded once, so that what a module keeps is kept.
    assert functions[0] is functions[2]
    assert not {"transforms", "helper", "parts", "parts.part"} & (set(sys.modules) - before)


@pytest.mark.parametrize("modules", [OwnModules(), None], ids=["several", "one"])
@pytest.mark.parametrize("name", RESERVED)
def test_a_module_with_the_name_of_one_of_ours_is_refused_by_name(
    tmp_path: Path, name: str, modules: OwnModules | None
) -> None:
    loaded = replace(declared(tmp_path, "one"), modules=modules)
    # A folder of data hides no package.
    (tmp_path / name).mkdir()
    (tmp_path / name / "day.csv").touch()
    ours = sys.modules.get(name)
    assert load_transform(loaded)(1)[0] == "one"
    (tmp_path / f"{name}.py").write_text("WORD = 'mine'\n")
    with pytest.raises(InputError, match=rf"{name}\.py has the name of the package `{name}`"):
        load_transform(loaded)
    assert sys.modules.get(name) is ours


def test_the_reserved_names_are_those_that_are_installed() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    packages = tomllib.loads(text)["tool"]["setuptools"]["packages"]["find"]["include"]
    assert [name.removesuffix("*") for name in packages] == list(RESERVED)


@pytest.mark.parametrize("name", ["sources", "spark_jobs", "hybrid_extensions"])
def test_the_first_import_says_where_another_package_of_one_of_our_names_is(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").touch()
    command = [sys.executable, "-m", "orchestration.cli.main", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: The package `{name}` of hybrid")
    assert str(tmp_path / f"{name}.py") in done.stderr


def test_the_first_import_takes_another_way_to_name_the_same_folder_for_what_it_is() -> None:
    # As Dagster does for a relative `working_directory`.
    program = f"import sys; sys.path.insert(0, {str(ROOT / '.')!r} + '/.'); import orchestration"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT.parent, check=True)


def test_a_later_run_gets_what_the_file_is_by_then(tmp_path: Path) -> None:
    assert load_transform(declared(tmp_path, "one"))(1)[0] == "one"
    assert load_transform(declared(tmp_path, "changed"))(1)[:2] == ["changed", "changed"]


def test_a_module_with_the_name_of_an_installed_one_hides_it_for_its_pipeline_only(
    tmp_path: Path,
) -> None:
    loaded = declared(tmp_path, "one")
    (tmp_path / "json.py").write_text("def dumps(rows):\n    return 'mine'\n")
    # A folder of data hides no package.
    (tmp_path / "yaml").mkdir()
    (tmp_path / "helper.py").write_text("import yaml\nWORD = yaml.safe_dump(1)\n")
    assert load_transform(loaded)(1) == ["one", "1\n...\n", "one", "mine"]
    assert sys.modules["json"] is json
    assert sys.modules["yaml"] is yaml


def test_other_threads_may_import_modules_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Name(str):
        """A name at each look at which another module is imported, as by another thread."""

        def __hash__(self) -> int:
            others.append(f"imported_meanwhile_{len(others)}")
            sys.modules[others[-1]] = sys
            return super().__hash__()

    others: list[str] = []
    monkeypatch.setitem(sys.modules, Name("some_module"), sys)
    try:
        with OwnModules().importable([tmp_path]):
            pass
    finally:
        monkeypatch.undo()
        for each in others:
            sys.modules.pop(each, None)
    assert len(others) > 1


@pytest.mark.parametrize("modules", [OwnModules(), None], ids=["several", "one"])
def test_a_function_is_imported_while_other_threads_import_from_new_folders(
    tmp_path: Path, modules: OwnModules | None
) -> None:
    def other_thread(phase: str, about: dict[str, int]) -> None:
        """Garbage is collected where pairs are made: there another thread's turn may come."""
        others.append(f"imported_meanwhile_{len(others)}")
        sys.modules[others[-1]] = sys
        sys.path_importer_cache[others[-1]] = None

    loaded = replace(declared(tmp_path, "one"), modules=modules)
    others: list[str] = []
    threshold = gc.get_threshold()
    gc.callbacks.append(other_thread)
    gc.set_threshold(1)
    try:
        assert load_transform(loaded)(1)[0] == "one"
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(other_thread)
        for each in others:
            sys.modules.pop(each, None)
            sys.path_importer_cache.pop(each, None)
    assert others
