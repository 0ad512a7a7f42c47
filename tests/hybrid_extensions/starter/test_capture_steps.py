"""What `hybrid init` prints for tables of a database can be pasted, wherever a shell stands."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from hybrid_extensions.cdc.capture_starter import CaptureOptions
from hybrid_extensions.starter.capture_database import next_steps
from tests.orchestration.supervision.live_case import LiveCase

pytest.importorskip("hybrid_extensions.postgres", reason="it names the variable of the password")


@pytest.mark.parametrize("stands_in", [".", "below"])
def test_the_printed_commands_find_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stands_in: str
) -> None:
    folder = tmp_path / "the shop"
    (folder / "below").mkdir(parents=True)
    case = LiveCase(folder)
    (folder / "shop_topics.sh").write_text("echo topics >> said\n")
    (folder / "shop_connector.json").write_text("{}")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "curl").write_text('#!/bin/sh\necho curl "$@" >> said\n')
    (programs / "curl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.chdir(folder / stands_in)
    options = CaptureOptions("shop", "host=db dbname=shop", ["public.events"], "kafka:9092")
    first, *steps, run = next_steps(options, [case.loaded]).splitlines()
    assert first == "Then:"
    for step in steps:
        subprocess.run(step, shell=True, check=True)
    topics, curl = (folder / stands_in / "said").read_text().splitlines()
    here = "" if stands_in == "." else f"{folder}/"
    assert topics == "topics"
    assert f"--data @{here}shop_connector.json http://<connect>:8083/connectors" in curl
    *_, action, path = shlex.split(run)
    assert (action, Path(path).resolve()) == ("run", case.path)


def test_a_password_that_the_shell_lacks_has_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    options = CaptureOptions("shop", "host=db dbname=shop", ["public.events"], "kafka:9092")
    assert "  PGPASSWORD=… " in next_steps(options, [LiveCase(tmp_path).loaded])
