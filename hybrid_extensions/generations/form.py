"""Launch form of the job for generations: fields of its actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import dagster as dg
from pydantic import Field

from orchestration.defs.jobs.action_form import ActionForm, text_field
from sources.config.loader import LoadedPipeline

_PROMOTE = dg.Enum("promote", [dg.EnumValue("CHECKS"), dg.EnumValue("NEVER")])
_SERVING = {
    "together_with": dg.Field(
        [str],
        default_value=[],
        description="Files of other pipelines, relative to this one's, such as `revenue.yaml`: all "
        "of them are changed together with this one, or none.",
    ),
    "by": text_field("Your name, which is kept as that of who decided what serves."),
}


def fields_of(loaded: LoadedPipeline) -> Mapping[str, Mapping[str, dg.Field]]:
    """Return the form's fields of each action by its name; actions without fields are left out.

    Args:
        loaded: The pipeline; by default a rerun is audited if it declares ``audit``.
    """
    is_audited = loaded.pipeline.audit is not None
    which = "true, as the pipeline declares" if is_audited else "false, without"
    default = f"By default {which} `audit`."
    return {
        "RERUN": {
            "promote": dg.Field(
                _PROMOTE,
                default_value="CHECKS",
                description="CHECKS promotes once it has caught up, is healthy and has enough "
                "rows, as the command `rerun` does; NEVER leaves the promotion to a person.",
            ),
            "audit": dg.Field(
                bool,
                is_required=False,
                description="Whether to audit the candidate once it is computed, which reads all "
                f"of the input again; CHECKS promotes none whose audit fails. {default}",
            ),
            "rows_at_least": dg.Field(
                float,
                default_value=0.99,
                description="Fewest rows, as a fraction of those of the serving generation.",
            ),
        },
        **dict.fromkeys(("PROMOTE", "ROLLBACK"), _SERVING),
    }


class GenerationForm(ActionForm):
    """Filled-in form of the job for generations.

    Attributes:
        action: Name of the action, in capitals.
        by: Name of the person who decides what serves; empty if only Dagster knows it.
        promote: ``CHECKS`` if a rerun is promoted once its checks hold, ``NEVER`` to leave that to
            a person.
        audit: Whether the candidate of a rerun is audited; None if the pipeline declares it.
        rows_at_least: Fewest rows of a rerun, as a fraction of those of the serving generation.
        together_with: Files of the pipelines that are promoted or rolled back together with this
            one, relative to its file.
    """

    action: str = "COMPARE"
    by: str = ""
    promote: Literal["CHECKS", "NEVER"] = "CHECKS"
    audit: bool | None = None
    rows_at_least: float = 0.99
    together_with: list[str] = Field(default_factory=list)
