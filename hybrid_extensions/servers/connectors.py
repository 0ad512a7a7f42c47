"""Connectors of a running worker of Kafka Connect: its REST interface."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from hybrid_extensions.servers.process import HOST, last_lines
from sources.errors import RunError

START_TIMEOUT_S = 120.0
_POLL_S = 0.1
_ANSWER_S = 30.0


class Connectors:
    """Connectors of one worker, which are created and deleted by name.

    Args:
        port: Port of the worker's REST interface, on the loopback address.
        log: File with the worker's output, which errors quote the end of.
        is_alive: Whether the worker's process runs; waiting ends once it does not.
    """

    def __init__(self, port: int, log: Path, is_alive: Callable[[], bool] = lambda: True) -> None:
        self._address = f"{HOST}:{port}"
        self._log = log
        self._is_alive = is_alive

    def wait_for_worker(self) -> None:
        """Wait until the worker answers.

        Raises:
            RunError: It does not within 120 s, or has ended; carries the last lines of its log.
        """
        self._wait(lambda: self._ask("GET", "/connectors") is not None, "answer")

    def is_running(self, name: str) -> bool:
        """Return whether a connector's only task runs; False also if it is not there.

        Args:
            name: Name of the connector.

        Raises:
            RunError: The worker answers with an error.
        """
        return [task["state"] for task in self._tasks(name)] == ["RUNNING"]

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, and wait until its only task runs.

        Args:
            name: Name of the connector.
            config: Settings of the connector, such as those of :func:`debezium_config`.

        Raises:
            RunError: Connect refuses the connector, as one whose name exists, its task fails, or
                the task does not run within 120 s; carries what Connect answers, or the last lines
                of its log.
        """
        self._ask("POST", "/connectors", {"name": name, "config": dict(config)})
        self._wait(lambda: self._has_come_up(name), f"run connector `{name}`")

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Change a connector's settings, which starts its task again; does not wait for that.

        Args:
            name: Name of the connector, which is created if it does not exist.
            config: All of its settings.

        Raises:
            RunError: Connect refuses.
        """
        self._ask("PUT", f"/connectors/{name}/config", dict(config))

    def pause(self, name: str) -> None:
        """Pause a connector, which then writes nothing to its topics until :meth:`resume`.

        Args:
            name: Name of the connector.

        Raises:
            RunError: Connect refuses, or the task does not pause within 120 s.
        """
        self._ask("PUT", f"/connectors/{name}/pause", {})

        def is_paused() -> bool:
            return [task["state"] for task in self._tasks(name)] == ["PAUSED"]

        self._wait(is_paused, f"pause connector `{name}`")

    def resume(self, name: str) -> None:
        """Resume a connector after :meth:`pause` or :meth:`begin_transaction_again`.

        Does not wait for its task, and does nothing if Kafka Connect does not answer.

        Args:
            name: Name of the connector.

        Raises:
            RunError: Connect refuses.
        """
        self._ask("PUT", f"/connectors/{name}/resume", {})

    def begin_transaction_again(self, name: str) -> None:
        """Stop a MariaDB connector, and reset it to the beginning of its last transaction.

        For a failover: its offset counts events in the transaction, and another server has others.
        :meth:`resume` starts it again.

        Args:
            name: Name of the connector.

        Raises:
            RunError: Connect refuses, or the connector does not stop within 120 s.
        """
        self._ask("PUT", f"/connectors/{name}/stop", {})
        self._wait(lambda: self._state(name) == "STOPPED", f"stop connector `{name}`")
        found = self._ask("GET", f"/connectors/{name}/offsets")
        for each in found["offsets"]:
            each["offset"] = {part: each["offset"][part] for part in ("file", "pos", "gtids")}
        self._ask("PATCH", f"/connectors/{name}/offsets", found)

    def delete(self, name: str) -> dict[str, str]:
        """Delete a connector; its offsets and its replication slot in the database are kept.

        Args:
            name: Name of the connector.

        Returns:
            The connector's settings, to create it again.

        Raises:
            RunError: Connect refuses, as for a connector that does not exist.
        """
        config: dict[str, str] = self._ask("GET", f"/connectors/{name}/config") or {}
        self._ask("DELETE", f"/connectors/{name}")
        return config

    def url(self, name: str) -> str:
        """Return a connector's URL in the worker's REST interface.

        Args:
            name: Name of the connector.
        """
        return f"http://{self._address}/connectors/{name}"

    def _has_come_up(self, name: str) -> bool:
        failed = [task for task in self._tasks(name) if task["state"] == "FAILED"]
        if failed:
            trace = failed[0].get("trace", "")
            message = f"The task of connector `{name}` failed: {trace or 'no reason is reported'}"
            hint = f"Correct the settings of `{name}`, delete the connector and create it again."
            raise RunError(message, hint, value=name)
        return self.is_running(name)

    def _state(self, name: str) -> str:
        found = self._ask("GET", f"/connectors/{name}/status") or {"connector": {"state": ""}}
        return str(found["connector"]["state"])

    def _tasks(self, name: str) -> list[dict[str, Any]]:
        """Return what Connect says of a connector's tasks; none if it is not there."""
        found = self._ask("GET", f"/connectors/{name}/status") or {}
        tasks: list[dict[str, Any]] = found.get("tasks", [])
        return tasks

    def _wait(self, is_done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_done():
            if not self._is_alive() or time.monotonic() > deadline:
                tail = last_lines(self._log.read_bytes())
                why = f"within {START_TIMEOUT_S:.0f} s" if self._is_alive() else "before it ended"
                message = f"Kafka Connect did not {what} {why}. The end of its log:\n{tail}"
                hint = "Correct the cause that the log names, then start Kafka Connect again."
                raise RunError(message, hint, server=self._address)
            time.sleep(_POLL_S)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return Connect's answer; None while it has none yet."""
        begin = self._log.stat().st_size
        request = urllib.request.Request(
            f"http://{self._address}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            if error.code in (404, 409) and method == "GET":
                return None
            answered = error.read().decode(errors="replace")
            where = f"{method} http://{self._address}{path}"
            message = f"Kafka Connect refuses {where} (HTTP {error.code}): {answered}"
            if error.code == HTTPStatus.INTERNAL_SERVER_ERROR:
                message += self._cause(begin)
            hint = "Correct the connector's name or settings as the answer says, then repeat this."
            raise RunError(message, hint, server=self._address) from None
        except OSError:
            return None
        with contextlib.suppress(ValueError):
            return json.loads(text)
        return {}

    def _cause(self, begin: int) -> str:
        """Return the last cause that the log names from a byte on, as a sentence; or nothing.

        What a connector says while its settings are checked, such as a right that is missing, is in
        no answer.
        """
        lines = self._log.read_bytes()[begin:].decode(errors="replace").splitlines()
        causes = [line for line in lines if line.startswith("Caused by: ")]
        return f" {causes[-1]}." if causes else ""
