"""The launch form of the control job: an action, and the fields of that action only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import BaseModel, ConfigDict, ValidationError

from orchestration.defs.jobs.actions import Action
from sources.config.loader import LoadedPipeline
from sources.errors import InputError

_GENERATION = "Name of the generation, such as g2; else the one that serves."


class ControlConfig(BaseModel):
    """What a filled-in form asks for; each field but ``action`` belongs to some of the actions.

    Attributes:
        action: The action, in capitals.
        generation: Name of the generation to act on; empty for the one that serves.
        by: Name of the person; empty if only Dagster knows it.
        why: Why the run is paused.
        within: Longest time that a drain may take.
        source: Name of the source whose rate is limited.
        bytes, files, rows, offsets: Limits per second; empty or None without one.

    Fields of actions that extensions add are there, too, where their action was chosen.
    """

    model_config = ConfigDict(extra="allow")

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


def control_schema(actions: Mapping[str, Action]) -> dg.Permissive:
    """Return the schema of the form: one of the actions, such as ``rate: {offsets: 500}``.

    An action may be written as a text in capitals, too, with its fields beside it, as forms were
    before; Dagster's launchpad proposes only the other way.

    Args:
        actions: The actions; the first one is the default, and has to do without any field.
    """
    one_of = dg.Selector(  # type: ignore[no-untyped-call]
        {
            name.lower(): dg.Field(
                action.fields, is_required=False, description=_sentence(action.text)
            )
            for name, action in actions.items()
        }
    )
    action = dg.Field(
        dg.ScalarUnion(scalar_type=str, non_scalar_schema=one_of),
        # As a text: the launchpad shows no default that is a mapping without values.
        default_value=next(iter(actions)),
        description="What to do, with the fields of that action only, such as "
        "`pause: {why: new brokers}`.",
    )
    return dg.Permissive({"action": action})  # type: ignore[no-untyped-call]


def read_form(given: Mapping[str, Any], actions: Mapping[str, Action]) -> ControlConfig:
    """Return what a form asks for.

    Args:
        given: The form, as Dagster has checked it.
        actions: The pipeline's actions.

    Raises:
        InputError: An action that was written as a text is none of them, or a field beside it
            does not exist.
    """
    given = dict(given)
    action = given.pop("action")
    if not isinstance(action, str):
        [(action, fields)] = action.items()
        action, given = action.upper(), {**given, **fields}
    if action not in actions:
        message = f"`{action}` is no action of this job."
        raise InputError(message, f"Choose one of {', '.join(actions)}.", field="action")
    known = {name: value for name, value in given.items() if value is not None}
    own = ControlConfig.model_fields
    fields = actions[action].fields.items()
    known = {name: field.default_value for name, field in fields if name not in own} | known
    allowed = {*own, *(name for each in actions.values() for name in each.fields)}
    if unknown := sorted(known.keys() - allowed):
        message = f"Field `{unknown[0]}` of the launch form does not exist."
        hint = "The launchpad's panel shows the fields of each action."
        raise InputError(message, hint, field=unknown[0])
    try:
        return ControlConfig.model_validate({"action": action, **known})
    except ValidationError as error:
        [first, *_] = error.errors()
        field = ".".join(map(str, first["loc"]))
        message = f"Field `{field}` of the launch form: {first['msg']}."
        hint = "The launchpad's panel shows the fields of each action."
        raise InputError(message, hint, field=field) from None


def fields_of(loaded: LoadedPipeline) -> dict[str, Mapping[str, dg.Field]]:
    """Return the fields of each action of the core that has some."""
    names = [source.name for source in loaded.pipeline.sources]
    of_generation = {"generation": _text(_GENERATION)}
    number = dg.Noneable(int)
    return {
        "PAUSE": {"why": _text("The reason, shown as long as it is paused."), **of_generation},
        "RESUME": of_generation,
        "STOP": of_generation,
        "AUDIT": of_generation,
        "DRAIN": {
            "within": _text("Longest time to wait, such as 10 min. Then the job fails.", "1 h"),
            **of_generation,
        },
        "RATE": {
            "source": dg.Field(
                dg.Enum(f"{loaded.pipeline.name}_source", [dg.EnumValue(name) for name in names]),
                default_value=names[-1],
                description=f"The source: {', '.join(names)}.",
            ),
            "bytes": _text("Bytes of files per second, such as 50MiB."),
            "files": _field(number, "Files per second."),
            "rows": _field(number, "Rows of Parquet, Delta or ORC files per second."),
            "offsets": _field(number, "Offsets of topics per second."),
            **of_generation,
        },
        "APPROVE": {"by": _text("Your name, which is kept and shown.")},
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _text(description: str, default: str = "") -> dg.Field:
    return dg.Field(str, default_value=default, description=description)


def _field(kind: Any, description: str) -> dg.Field:
    return dg.Field(kind, is_required=False, description=description)
