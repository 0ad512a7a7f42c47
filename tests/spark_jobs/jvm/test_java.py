from __future__ import annotations

from pathlib import Path

import pytest

from sources.errors import InputError
from spark_jobs.jvm import java
from spark_jobs.jvm.java import java_version, require_java


def fake_java(folder: Path, script: str) -> Path:
    path = folder / "java"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def saying(*lines: str) -> str:
    return "\n".join(f"echo '{line}' >&2" for line in lines)


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        (['java version "1.8.0_392"', "Java(TM) SE Runtime Environment"], 8),
        (['openjdk version "17.0.15" 2025-04-15', "OpenJDK Runtime Environment"], 17),
        (['openjdk version "21" 2023-09-19'], 21),
        (['openjdk version "26-ea" 2026-03-17'], 26),
        (["Picked up JAVA_TOOL_OPTIONS: -Dversion=9", 'openjdk version "17.0.1"'], 17),
    ],
)
def test_the_version_is_read_from_what_java_prints(
    tmp_path: Path, lines: list[str], version: int
) -> None:
    assert java_version(fake_java(tmp_path, saying(*lines))) == version


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home = fake_java(tmp_path / "home" / "bin", saying('openjdk version "21.0.1"'))
    on_path = fake_java(tmp_path / "path", saying('openjdk version "17.0.1"'))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert require_java() == at_home
    monkeypatch.delenv("JAVA_HOME")
    assert require_java() == on_path


def test_an_old_java_is_refused_with_its_path_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path / "bin", saying('java version "1.8.0_392"'))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError) as caught:
        require_java()
    assert str(old) in str(caught.value)
    assert "version 8" in str(caught.value)
    assert "17 or later" in caught.value.hint
    assert java_version(old) == 8


def test_no_java_at_all_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="No Java was found") as caught:
        require_java()
    # There is no variable to be removed.
    assert "set JAVA_HOME to its folder" in caught.value.hint
    assert "emove" not in caught.value.hint


def test_a_java_home_without_java_is_named_instead_of_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "path", saying('openjdk version "17.0.1"'))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(InputError, match=r"JAVA_HOME is .*gone") as caught:
        require_java()
    other = tmp_path / "path" / "java"
    assert caught.value.hint.startswith(f"Remove the variable (`unset JAVA_HOME`) to use {other}")


def test_a_stub_that_is_no_java_is_quoted(tmp_path: Path) -> None:
    stub = fake_java(tmp_path, f"{saying('Unable to locate a Java Runtime.')}\nexit 1")
    with pytest.raises(InputError, match="Unable to locate a Java Runtime"):
        java_version(stub)


def test_a_file_that_does_not_start_is_named(tmp_path: Path) -> None:
    text = tmp_path / "java"
    text.write_text("not a program")
    with pytest.raises(InputError, match="can't be started: Permission denied") as refused:
        java_version(text)
    assert "Let this user execute the file." in refused.value.hint


def test_a_java_that_gives_no_answer_was_started_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_TIMEOUT_S", 0.1)
    path = fake_java(tmp_path, "exec sleep 9")
    with pytest.raises(InputError) as refused:
        java_version(path)
    assert refused.value.message == f"The Java at {path} is silent."
