"""Replacement of a pipeline's whole table, as Dagster offers it; an extension implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import dagster as dg

from sources.config.loader import LoadedPipeline
from sources.extensions import contributions


class Replacement(ABC):
    """Interface of what replaces whole tables by other generations; its extension implements it."""

    @abstractmethod
    def job(self, loaded: LoadedPipeline) -> dg.JobDefinition:
        """Return the job ``<name>_generation``, which begins, compares and promotes generations."""

    @abstractmethod
    def check_again(
        self, instance: dg.DagsterInstance, loaded: LoadedPipeline
    ) -> dg.AssetCheckEvaluation | None:
        """Return the last comparison of a candidate, to report it once more; None if there is none.

        Called after a materialization of the table, as Dagster shows a check as not evaluated then.

        Raises:
            StateError: The state can't be read.
            UnavailableError: The state's store does not answer.
        """

    @abstractmethod
    def finish_form(self, loaded: LoadedPipeline) -> dict[str, Any]:
        """Return the run config with which the job completes an interrupted promotion."""


def installed_replacement() -> Replacement | None:
    """Return what the first installed extension that replaces tables adds; None without any.

    Raises:
        InputError: An extension can't be loaded.
    """
    return next(contributions("replacement"), None)
