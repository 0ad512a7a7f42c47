"""What executors get of a pipeline's folder: its modules, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sources.errors import InputError
from spark_jobs.launch.submission import code_archive
from spark_jobs.launch.submission.code_archive import write_code_archive


def put(folder: Path, *names: str, text: str = "") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_modules_and_packages_are_sent_and_nothing_that_no_import_can_name(tmp_path: Path) -> None:
    put(tmp_path, "transforms.py", "shop/__init__.py", "shop/rules.py", "spaces/deep/x.py")
    put(tmp_path, "orders.yaml", "data/part-0.parquet", ".git/hook.py", "not-a-package/x.py")
    # As an editor and a reproducible build leave them.
    (tmp_path / ".#transforms.py").symlink_to("nobody@nowhere")
    os.utime(tmp_path / "transforms.py", (0, 0))
    (tmp_path / "spaces" / "again").symlink_to(tmp_path)
    put(tmp_path, "venv/pyvenv.cfg", "venv/lib/x.py", "shop/__pycache__/rules.py")
    archive = write_code_archive([tmp_path], tmp_path / "out.zip")
    with zipfile.ZipFile(archive) as made:
        assert sorted(name for name in made.namelist() if not name.endswith("/")) == [
            "shop/__init__.py",
            "shop/rules.py",
            "spaces/deep/x.py",
            "transforms.py",
        ]


def test_of_two_modules_of_one_name_python_finds_that_of_the_first_folder(tmp_path: Path) -> None:
    put(tmp_path / "kept", "transforms.py", text="version = 'kept'\n")
    put(tmp_path / "own", "transforms.py", text="version = 'own'\n")
    put(tmp_path / "own", "shop/rules.py", text="from transforms import version\n")
    folders = [tmp_path / "kept", tmp_path / "own"]
    archive = write_code_archive(folders, tmp_path / "out.zip")
    code = "from shop.rules import version; print(version)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "kept"


def test_a_folder_that_holds_more_than_a_pipelines_modules_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_archive, "MOST_BYTES", 10)
    put(tmp_path, "big.py", text="x = 1\n" * 3)
    with pytest.raises(InputError, match="folder of their own"):
        write_code_archive([tmp_path], tmp_path / "out.zip")


def test_folders_that_hold_too_much_together_are_all_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_archive, "MOST_BYTES", 10)
    folders = [tmp_path / "kept", tmp_path / "own"]
    for each in folders:
        put(each, f"of_{each.name}.py", text="x = 1\n")
    with pytest.raises(InputError, match=f"modules in {folders[0]} and {folders[1]} and below"):
        write_code_archive(folders, tmp_path / "out.zip")
