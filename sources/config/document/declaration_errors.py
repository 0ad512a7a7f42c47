"""Errors of an invalid declaration in words: the field, the value, and the names allowed there."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sources.common.fields import Declared
from sources.config.code.transform import TRANSFORM_MODELS
from sources.config.section import Section
from sources.config.source.file_options import BY_ARRIVAL, BY_NAME, ArrivalOrder
from sources.config.source.source_kinds import SOURCE_MODELS
from sources.decoding.record_rows import FORMATS_FIELDS, RecordRows
from sources.decoding.value_formats.registry import VALUE_TAGS
from sources.errors import InputError

# By the names that Pydantic puts between a field and the fields of one of several models.
_TAGS: Mapping[str, type[BaseModel]] = {
    **SOURCE_MODELS,
    **TRANSFORM_MODELS,
    BY_ARRIVAL: ArrivalOrder,
    FORMATS_FIELDS: RecordRows,
    **VALUE_TAGS,
}


def invalid_file(path: Path, lines: list[str]) -> InputError:
    """Return the error for a file that is no valid declaration, for the caller to raise.

    Args:
        path: The file.
        lines: One for each invalid field, indented, as of :func:`explained`.
    """
    message = "\n".join([f"{path.name} is not a valid pipeline:", *lines])
    hint = f"Correct {path.name}; `hybrid reference` prints all fields and what they mean."
    return InputError(message, hint, file=str(path))


def explained(
    error: dict[str, Any], model: type[BaseModel], models: Sequence[type[BaseModel]]
) -> str:
    """Return a line on an error of Pydantic: the field, what is wrong, and what is allowed there.

    Args:
        error: Error of a validation, as Pydantic describes it.
        model: The model that was validated.
        models: All models that the file's fields are of: those of the pipeline, then of extensions.
    """
    types, loc = _tags(model), error["loc"]
    location = [
        part
        for at, part in enumerate(loc)
        if not _is_tag(loc, at, types) and part != BY_NAME and not str(part).startswith("literal[")
    ]
    where = ".".join(str(part) for part in location) or "pipeline"
    if error["type"] == "extra_forbidden":
        place = error["loc"][:-1]
        inside = _fields_at(place, model)
        allowed = inside if place else [name for each in models for name in _fields_of(each)]
        close = difflib.get_close_matches(str(location[-1]), allowed, 1, 0.5)
        advice = f"did you mean `{close[0]}`?" if close else f"allowed: {', '.join(allowed)}."
        return f"  {where}: unknown field; {advice}"
    if error["type"] == "union_tag_invalid":
        known = error["ctx"]["expected_tags"].replace("'", "")
        return (
            f"  {where}.type: `{error['ctx']['tag']}` is not known here; known are {known}. "
            "Correct it, or install the extension that adds it."
        )
    if error["type"] in ("missing", "union_tag_not_found"):
        where = where if error["type"] == "missing" else f"{where}.type"
        return f"  {where}: this field is needed, but not declared. Add it."
    text = error["msg"].removeprefix("Value error, ")
    if error["type"] == "model_type":
        text = "a mapping (`field: value` lines) is needed here"
    # A validator of this project names the value itself, unless it may hold a password.
    shown = None if error["type"] == "value_error" else error.get("input")
    given = f" (given: {shown!r})" if isinstance(shown, str | int | float) else ""
    return f"  {where}: {text.removesuffix('.')}{given}."


def with_source(line: str, location: tuple[int | str, ...], document: Any) -> str:
    """Return the line on what is wrong at a location, with the name of the source that it is in.

    Unchanged outside of a source, and if the line has the name already.

    Args:
        line: The line, as of :func:`explained`.
        location: Where in the document: keys, and indexes of lists.
        document: The document that was validated.
    """
    if "sources" not in location[:-1]:
        return line
    at = location.index("sources")
    for part in location[:at]:  # none, or `inputs` and the name of one
        document = document[part]
    source = document["sources"][location[at + 1]]
    name = source.get("name") if isinstance(source, dict) else None
    known = name is None or f"`{name}`" in line
    return line if known else f"  source `{name}`, {line.strip()}"


def _tags(model: type[BaseModel]) -> Mapping[str, type[BaseModel]]:
    """Return the names that Pydantic may put into a location, with the models they stand for."""
    return model.tags if issubclass(model, Section) else _TAGS


def _is_tag(location: tuple[int | str, ...], at: int, types: Mapping[str, type[BaseModel]]) -> bool:
    """Return whether a part of a location is the name of a model, not of a field or a number.

    Kinds of sources may have the names of fields, such as `table`; theirs come after a number.
    """
    part = location[at]
    is_in_list = at > 0 and isinstance(location[at - 1], int)
    return part in types and (part not in SOURCE_MODELS or is_in_list)


def _fields_at(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """Return the field names that a YAML mapping at a location may use."""
    current: type[BaseModel] | None = model
    types = _tags(model)
    for at, part in enumerate(location):
        if _is_tag(location, at, types):
            current = types[str(part)]
        elif isinstance(part, str) and part in (fields := _fields_of(current)):
            current = _model_in(fields[part].annotation)
    return [*_fields_of(current)]


def _fields_of(model: type[BaseModel] | None) -> dict[str, FieldInfo]:
    return model.written() if model is not None and issubclass(model, Declared) else {}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)
