"""Registry of the formats of a record's value, by the names that declarations use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Discriminator, Tag

from sources.decoding.value_formats.base import ValueFormat
from sources.decoding.value_formats.json_values import JsonValues
from sources.decoding.value_formats.raw_values import RawValues
from sources.errors import InputError
from sources.extensions import contributions, distribution_of

_OWN: Mapping[str, type[ValueFormat]] = {
    "json": JsonValues,
    "raw": RawValues,
}


def _all() -> Mapping[str, type[ValueFormat]]:
    found = dict(_OWN)
    for added in contributions("value_formats"):
        for name, model in added.items():
            if name in found:
                path = f"{model.__module__}.{model.__qualname__}"
                message = f"Two formats of values have the name `{name}`; one is {path}."
                hint = f"Correct or uninstall {distribution_of(model)}, which adds it."
                raise InputError(message, hint, value=name)
            found[name] = model
    return found


VALUE_FORMATS = _all()
"""The model of each format, those of extensions included."""


def _tag(value: Any) -> str:
    """Return what Pydantic's errors call a format; no column can have this name."""
    name = value["format"] if isinstance(value, dict) else value.format
    return f"values of format {name}"


VALUE_TAGS: Mapping[str, type[ValueFormat]] = {
    _tag({"format": name}): model for name, model in VALUE_FORMATS.items()
}
"""The models, by what Pydantic's errors call them."""

if TYPE_CHECKING:
    AnyValueFormat = ValueFormat
else:
    # The members are not known to a type checker, so that a format is added in one place.
    AnyValueFormat = Annotated[
        Union[tuple(Annotated[model, Tag(tag)] for tag, model in VALUE_TAGS.items())],  # noqa: UP007
        Discriminator(_tag),
    ]
"""A value's format as it is declared: one of the models, by ``format``."""


def formats_of_fields() -> dict[str, list[str]]:
    """Return, by field of any value format, the names of the formats that have this field.

    The field ``format`` is in all of them.
    """
    found: dict[str, list[str]] = {}
    for name, model in VALUE_FORMATS.items():
        for field in model.model_fields:
            found.setdefault(field, []).append(name)
    return found
