"""Launch form of a job: one action with its fields; unknown fields and values are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import dagster as dg
from pydantic import BaseModel, ConfigDict, ValidationError

from orchestration.defs.jobs.actions import Action
from sources.errors import InputError


class ActionForm(BaseModel):
    """Filled-in form of a job with several actions; each other field belongs to some of them.

    Fields of actions that extensions add are there, too, where their action was chosen.

    Attributes:
        action: Name of the action, in capitals.
    """

    model_config = ConfigDict(extra="allow")

    action: str


Form = TypeVar("Form", bound=ActionForm)


def action_schema(actions: Mapping[str, Action], example: str) -> dg.Permissive:
    """Return Dagster's schema of the form: one of the actions, such as ``rate: {offsets: 500}``.

    An action may also be written as a text in capitals, with its fields beside it; Dagster's
    launchpad proposes only the other way.

    Args:
        actions: The actions by name; the first one is the default, and must do without any field.
        example: How one of them is chosen, for the description, such as ``pause: {why: new
            brokers}``.
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
        description=f"What to do, with the fields of that action only, such as `{example}`.",
    )
    return dg.Permissive({"action": action})  # type: ignore[no-untyped-call]


def read_form(given: Mapping[str, Any], actions: Mapping[str, Action], form: type[Form]) -> Form:
    """Parse a filled-in launch form into its model; fields that are left out get their defaults.

    Args:
        given: The form, as Dagster has checked it.
        actions: The job's actions.
        form: The model of the form.

    Raises:
        InputError: An action that was written as a text is none of them, or a field beside it
            does not exist or has no such value.
    """
    given = dict(given)
    action = given.pop("action")
    if not isinstance(action, str):
        [(action, fields)] = action.items()
        action, given = action.upper(), {**given, **fields}
    if action not in actions:
        message = f"`{action}` is not an action of this job. Nothing was done."
        raise InputError(message, f"Choose one of {', '.join(actions)}.", field="action")
    known = {name: value for name, value in given.items() if value is not None}
    own = form.model_fields
    fields = actions[action].fields.items()
    known = {name: field.default_value for name, field in fields if name not in own} | known
    allowed = {*own, *(name for each in actions.values() for name in each.fields)}
    if unknown := sorted(known.keys() - allowed):
        message = f"Field `{unknown[0]}` of the launch form does not exist. Nothing was done."
        hint = "The launchpad's panel shows the fields of each action."
        raise InputError(message, hint, field=unknown[0])
    try:
        return form.model_validate({"action": action, **known})
    except ValidationError as error:
        [first, *_] = error.errors()
        field = ".".join(map(str, first["loc"]))
        message = f"Field `{field}` of the launch form: {first['msg']}. Nothing was done."
        hint = "The launchpad's panel shows the fields of each action."
        raise InputError(message, hint, field=field) from None


def text_field(description: str, default: str = "") -> dg.Field:
    """Return an optional text field of an action, for Dagster's schema of a form."""
    return dg.Field(str, default_value=default, description=description)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
