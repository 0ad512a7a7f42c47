"""Launch form of the control job: the fields of each action, and the generation it acts on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from orchestration.defs.jobs.action_form import ActionForm, text_field
from orchestration.defs.keys import GENERATION_TAG, note_on_run
from sources.config.loader import LoadedPipeline
from sources.generations import acting_on

OF_GENERATION: Mapping[str, dg.Field] = {
    "generation": text_field("Name of the generation, such as g2; else the one that serves.")
}
"""The field of actions on a generation."""


class ControlForm(ActionForm):
    """Filled-in form of a pipeline's control job.

    Attributes:
        action: Name of the action, in capitals.
        generation: Name of the generation to act on; empty for the serving one.
        by: Name of the person; empty if only Dagster knows it.
        why: Why the run is paused.
        within: Longest time that a drain may take, such as ``10 min``.
        source: Name of the source whose rate is limited; empty for the last one.
        bytes, files, rows, offsets: Limits per second; empty or None without one.
    """

    action: str = "STATUS"
    generation: str = ""
    by: str = ""
    why: str = ""
    within: str = "1 h"
    source: str = ""
    # Numbers are validated by `parse_limit`, which says more.
    bytes: str = ""
    files: int | None = None
    rows: int | None = None
    offsets: int | None = None


def fields_of(loaded: LoadedPipeline) -> dict[str, Mapping[str, dg.Field]]:
    """Return the form's fields of each action of the core, by the action's name.

    Actions without fields are left out.
    """
    names = [source.name for source in loaded.pipeline.sources]
    number = dg.Noneable(int)
    return {
        "PAUSE": {"why": text_field("The reason, shown as long as it is paused."), **OF_GENERATION},
        "RESUME": OF_GENERATION,
        "STOP": OF_GENERATION,
        "DRAIN": {
            "within": text_field(
                "Longest time to wait, such as 10 min. Then the job fails.", "1 h"
            ),
            **OF_GENERATION,
        },
        "RATE": {
            "source": dg.Field(
                dg.Enum(f"{loaded.pipeline.name}_source", [dg.EnumValue(name) for name in names]),
                default_value=names[-1],
                description=f"The source: {', '.join(names)}.",
            ),
            "bytes": text_field("Bytes of files per second, such as 50MiB."),
            "files": _field(number, "Files per second."),
            "rows": _field(number, "Rows of Parquet, Delta or ORC files per second."),
            "offsets": _field(number, "Offsets of topics per second."),
            **OF_GENERATION,
        },
        "APPROVE": {"by": text_field("Your name, which is kept and shown.")},
    }


def acting_generation(
    context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any
) -> LoadedPipeline:
    """Return the pipeline with the generation that the form names, and note it on the run.

    Args:
        context: The job's Dagster run.
        loaded: The pipeline.
        config: The form, with ``generation``; empty for the serving one.

    Raises:
        InputError: There is no such generation.
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    acting = acting_on(loaded, config.generation, as_kept=True)
    note_on_run(context, {GENERATION_TAG: acting.require_generation().name})
    return acting


def _field(kind: Any, description: str) -> dg.Field:
    return dg.Field(kind, is_required=False, description=description)
