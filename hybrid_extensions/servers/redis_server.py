"""A real Redis on this machine: in memory, with a password; it ends with its owner."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from hybrid_extensions.servers.process import HOST, TemporaryServer
from hybrid_extensions.servers.server_programs import REDIS, obtain


class LocalRedis(TemporaryServer):
    """Redis server for development and tests, as a context manager.

    It keeps its data in memory, listens on the loopback address only, and wants a password.

    Args:
        settings: Further settings, such as ``{"maxmemory": "64mb"}``.

    Attributes:
        password: Password of the user ``default``.
    """

    name = "Redis server"
    start_timeout_s = 20.0

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        super().__init__()
        self._settings = settings or {}
        self.password = secrets.token_hex(16)

    @property
    def url(self) -> str:
        """URL of its first database, without the password.

        Raises:
            RunError: The server is not running.
        """
        return f"redis://{self.address}/0"

    def _command(self, folder: Path, port: int) -> list[str]:
        given = {"save": "", "appendonly": "no", **self._settings}
        lines = [f'{name} "{value}"\n' for name, value in given.items()]
        settings = folder / "redis.conf"
        # In a file, as arguments are seen by everybody.
        settings.write_text("".join([f"requirepass {self.password}\n", *lines]))
        program = str(obtain(REDIS).paths["redis-server"])
        return [program, str(settings), "--bind", HOST, "--port", str(port), "--dir", str(folder)]

    def _answers(self) -> bool:
        host, _, port = self.address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                # It asks for the password, or answers.
                return connection.recv(16)[:1] in (b"-", b"+")
        except OSError:
            return False
