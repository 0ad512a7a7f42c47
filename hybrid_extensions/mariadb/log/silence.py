"""Whether a MariaDB or MySQL answers, where no connector is declared that would tell."""

from __future__ import annotations

from hybrid_extensions.mariadb.server import LOOK_S, connect, parse_address
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import HybridError


def ask_silence(options: SnapshotOptions) -> str | None:
    """Return why the server does not answer, or refuses the login; None if it answers.

    Raises nothing. To connect may take 10 s, and the first answer 15 s.

    Args:
        options: Declared snapshot.
    """
    try:
        connect(parse_address(options.dsn), "snapshot", LOOK_S).close()
    except HybridError as error:
        return error.message
    return None
