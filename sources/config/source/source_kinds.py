"""Kinds of sources by ``type``: files, kafka, and those of extensions, whose names must be free."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args

from pydantic import AfterValidator, BaseModel, Field

from sources.config.source.added_source import AddedSource
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from sources.extensions import contributions, distribution_of

AnySource = FileSource | KafkaSource
"""What a source is once its declaration is read; each one is a :class:`DeclaredSource`."""
_OWN: Mapping[str, type[BaseModel]] = {"files": FileSource, "kafka": KafkaSource}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def added_kinds(adds: Iterable[Mapping[str, Any]]) -> dict[str, type[AddedSource]]:
    """Merge the kinds of sources that extensions add to one mapping, by name of the kind.

    Empty if they add none.

    Args:
        adds: What each extension adds: a kind by its name.

    Raises:
        InputError: A kind has the name of another one, or is no subclass of
            :class:`AddedSource`; names the distribution that adds it.
    """
    found: dict[str, type[AddedSource]] = {}
    for added in adds:
        for name, model in added.items():
            if (why := _unfit(name, model, {*_OWN, *found})) is not None:
                message = f"Kind of source `{name}`, {_path(model)}: {why}."
                hint = f"Correct or uninstall {distribution_of(model)}, which adds it."
                raise InputError(message, hint, value=str(name))
            found[name] = model
    return found


def _unfit(name: Any, model: Any, taken: set[str]) -> str | None:
    """Return why a kind can't be added; None if it can."""
    if not (isinstance(model, type) and issubclass(model, AddedSource)):
        return f"it is no subclass of `{AddedSource.__module__}.AddedSource`"
    if name in taken:
        return "another kind has this name"
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        return "a name has lower case letters, digits and underscores, and begins with a letter"
    if get_args(model.model_fields["type"].annotation) != (name,):
        return f'its field `type` is not declared as `Literal["{name}"]`'
    if missing := sorted(model.__abstractmethods__):
        return f"it has no method `{missing[0]}`"
    return None


def _path(model: Any) -> str:
    return f"{getattr(model, '__module__', '?')}.{getattr(model, '__qualname__', model)}"


_ADDED = added_kinds(contributions("sources"))
SOURCE_MODELS: Mapping[str, type[BaseModel]] = {**_OWN, **_ADDED}
"""The model that each value of a source's ``type`` stands for."""

if TYPE_CHECKING:
    SourceSpec = AnySource
else:
    # The members are not known to a type checker, so that a kind is added in one place.
    _READ = [Annotated[each, AfterValidator(each.as_files)] for each in _ADDED.values()]
    SourceSpec = Annotated[
        Union[(FileSource, KafkaSource, *_READ)],
        Field(discriminator="type"),
    ]
"""A source as it is declared, by ``type``; one of an extension's kind becomes a file source."""
