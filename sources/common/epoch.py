"""Begin of Unix time, from which times in seconds, ms and microseconds are counted."""

from __future__ import annotations

from datetime import UTC, datetime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
