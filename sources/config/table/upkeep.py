"""Scheduled upkeep of the target: its small files, and those that nobody needs."""

from __future__ import annotations

from typing import Literal

from sources.config.table.reruns import Schedule


class Upkeep(Schedule):
    """Scheduled upkeep of the target, while its stream goes on; no row changes by it.

    Attributes:
        action: ``compact`` makes few large files of many small ones; ``vacuum`` deletes files that
            neither readers nor a rollback need.

    """

    action: Literal["compact", "vacuum"] = "compact"
