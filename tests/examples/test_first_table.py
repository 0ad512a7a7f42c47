"""The page that begins with an empty folder: its program and its commands, as they are printed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.extensions import needs

PAGE = Path(__file__).parents[2] / "docs" / "first-table.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.e2e,
]


@contextmanager
def shell(folder: Path, command: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs in a shell, until SIGTERM at the end of the context."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HYBRID_BROKER_FILE": str(folder / "broker.json"),
        "PYTHONUNBUFFERED": "1",
    }
    process = subprocess.Popen(
        f"exec {command}",
        shell=True,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate()


def run(folder: Path, command: str) -> str:
    with shell(folder, command) as process:
        said, _ = process.communicate()
    assert process.returncode == 0, f"{command}\n{said}"
    return said


@needs("starter")
def test_an_empty_folder_becomes_a_proved_table_by_the_commands_of_the_page(tmp_path: Path) -> None:
    text = PAGE.read_text()
    [program] = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    (tmp_path / "orders.py").write_text(re.sub(r"^ {3}", "", program, flags=re.MULTILINE))
    rest = text.replace(program, "")
    broker, produce, *commands = re.findall(r"^ {7}(\S.*)$", rest, re.MULTILINE)
    with shell(tmp_path, f"{broker} --data broker") as running:
        assert running.stdout is not None
        [address] = re.findall(r"listens at (\S+);", running.stdout.readline())
        run(tmp_path, produce.replace("127.0.0.1:…", address))
        said = {command: run(tmp_path, command) for command in commands}
    assert [command.split()[1] for command in commands] == [
        "init",
        "plan",
        "run",
        "status",
        "drain",
        "audit",
    ]
    assert "There is no topic" not in said[commands[0]]
    assert "Passed: the table is proved right." in said[commands[-1]]
    assert DeltaTable(tmp_path / "mine_out").to_pyarrow_dataset().count_rows() == 2000
