"""Modules of several pipelines in one process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from sources.config.loader import LoadedPipeline
from sources.config.own_modules import OwnModules
from sources.config.user_functions import load_function
from tests.spark_jobs.launch.test_launchers import pipeline

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


def test_each_pipeline_has_its_own_modules_of_a_name(tmp_path: Path) -> None:
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
