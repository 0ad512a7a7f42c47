"""Functions of pipelines that share a driver, on their way to Spark's tasks."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from pyspark import cloudpickle

from spark_jobs.inside.checkpoint.transform_shape import digest_of_code
from tests.sources.config.test_own_modules import declared, load_transform

LOAD = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(1))"


def test_a_task_gets_functions_and_what_they_use_by_value(tmp_path: Path) -> None:
    one, two = declared(tmp_path / "a", "one"), declared(tmp_path / "b", "two")
    for loaded, word in ((one, "one"), (two, "two")):
        sent = cloudpickle.dumps(load_transform(loaded))  # type: ignore[no-untyped-call]
        # A worker that has neither folder on its path.
        done = subprocess.run(
            [sys.executable, "-c", LOAD], input=sent, capture_output=True, check=True, cwd="/"
        )
        assert done.stdout.decode().strip() == str([word, word, word, "1"])


def test_the_code_of_a_transform_is_known_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "transforms.py"
    other.write_text("OTHER = 1\n")
    spec = spec_from_file_location("transforms", other)
    assert spec is not None
    # A module of that name that belongs to none of them.
    monkeypatch.setitem(sys.modules, "transforms", module_from_spec(spec))
    one, two = declared(tmp_path / "a", "one"), declared(tmp_path / "b", "two")
    same = declared(tmp_path / "c", "one")
    digests = [digest_of_code(load_transform(each)) for each in (one, two, same)]
    assert digests[0] == digests[2] != digests[1]
