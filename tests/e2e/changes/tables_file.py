"""The commands on a file with `tables`, in whose shared driver all its tables run."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from hybrid_extensions.cdc.tables.template import Template
from hybrid_extensions.shared_drivers.requests import folder_of, pid_of
from sources.config.loader import LoadedPipeline
from spark_jobs.launch.run_control import find_running
from tests.command_line import invoke
from tests.e2e.case import SMALL
from tests.e2e.changes.cdc_case import is_equal
from tests.services.processes import wait_for

PATIENCE_S = 300


class TablesFile:
    """A file with all tables of a schema, and the commands on it.

    Args:
        folder: Where the file is.
        name: Name of the whole, and the prefix of the topics.
        database: How the database is reached.
        servers: The broker.
        schema: The schema of the tables, or their database.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        database: Mapping[str, str],
        servers: str,
        schema: str = "public",
    ) -> None:
        self.path = folder / "shop.yaml"
        self._group = name
        self.document: dict[str, Any] = {
            "name": name,
            "database": {**database, "chunk_rows": 500},
            "tables": {"include": [f"{schema}.*"]},
            "topic": f"{name}.{{schema}}.{{table}}",
            "changes": {"bootstrap_servers": servers, "trigger_interval": "200 ms"},
            "sink": {"path": "lake/{schema}/{table}"},
            "state": "state",
            "spark": {"conf": dict(SMALL)},
        }
        self.write()

    def write(self) -> None:
        """Write the file as it is declared now."""
        self.path.write_text(yaml.safe_dump(self.document))

    def run(self, *words: str) -> tuple[int, str]:
        """A command, its exit status and all that it printed."""
        result = invoke(list(words))
        return result.exit_code, result.output

    def load(self, table: str) -> LoadedPipeline:
        """The pipeline of a table."""
        return Template(self.path).load(table)

    def pid(self, table: str) -> int | None:
        """The process that runs a table."""
        beat = find_running(self.load(table).require_generation(), "changes")
        return None if beat is None else beat.pid

    def wait_until_equal(self, *tables: str) -> None:
        """Wait until the tables in the lake equal those in the database, which is at rest."""
        for table in tables:
            equal = partial(is_equal(self.load(table)), None)
            wait_for(equal, f"{table} to equal its table", PATIENCE_S)

    def end(self) -> None:
        """Stop the runs, and their driver if that hangs."""
        self.run("stop", str(self.path))
        if folder_of(self._group).exists() and (pid := pid_of(folder_of(self._group))) is not None:
            os.killpg(os.getpgid(pid), signal.SIGKILL)
