"""Reference of a pipeline's declaration, generated from its models: Markdown or JSON Schema."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sources.common.fields import Declared
from sources.config.pipeline import Pipeline
from sources.decoding.record_rows import RecordRows
from sources.decoding.value_formats.base import ValueFormat
from sources.decoding.value_formats.registry import VALUE_FORMATS
from sources.extensions import contributions

_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*)$")
_ROLE = re.compile(r":\w+:`([\w.]+)`")
_REFERENCE = "#/$defs/"
_HEAD = """\
# Reference of a pipeline

All fields of `pipeline.yaml`. A field without a default is required; unknown fields are refused.
`${NAME}` and `${NAME:-default}` are replaced by environment variables in every text; where `NAME`
is not set, `NAME_FILE` may be the path of a file with the value
([security.md](security.md#secrets)). Durations are written as `90 s`, `10 min`, `1.5 h` or `1 day`,
instants as `2024-01-01T12:00:00Z`.

This page is printed by `hybrid reference`. `hybrid reference --json` prints a JSON Schema, with
which an editor completes and checks a pipeline. A whole one, as `hybrid init` writes it:

```yaml
name: orders
event_time: at                 # a timestamp column that all sources have
key: [order_id]                # identifies a row, in files and topic alike
allowed_lateness: 1 hour       # history is complete up to its end minus this
sources:                       # in order; all but the last must be bounded
  - {type: files, name: history, path: archive/**/*.parquet, format: parquet}
  - {type: kafka, name: live, topic: orders, bootstrap_servers: "${KAFKA}"}
transform: features:orders     # from DataFrame to DataFrame, in a module next to this file; or SQL
sink: {path: tables/orders, mode: append, key: [order_id]}
state: state
audit: {sql: orders.sql}       # optional: the same table in DuckDB's SQL, over the view `input`
```

`examples/` holds pipelines that run: `flight_events.yaml` (stateless, append), `flight_delays.yaml`
(sliding windows across the seam, merged by key) and `flight_days.yaml` (a query in SQL).
"""


def json_schema() -> dict[str, Any]:
    """Return the schema of a pipeline's file as JSON Schema (draft 2020-12), with extensions.

    Raises:
        InputError: An extension can't be loaded.
    """
    schema = Pipeline.model_json_schema()
    for section in contributions("section"):
        part = section.model_json_schema()
        schema["properties"] |= part["properties"]
        schema["$defs"] |= part.get("$defs", {})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def markdown() -> str:
    """Return the reference of a pipeline's file as Markdown: a table of fields for each model.

    Its texts are the models' docstrings; the page ``docs/pipeline.md`` is this text.

    Raises:
        InputError: An extension can't be loaded.
    """
    schema = json_schema()
    added = [*contributions("section")]
    lines = [line for model in added for line in _fields(model, schema)]
    sections = ["\n".join([*_section(Pipeline, schema), *lines, ""])]
    roots: list[type[Declared]] = [Pipeline, *added]
    models = {model.__name__: model for root in roots for model in _models(root)}
    sections += [
        "\n".join([*_section(models[name], part), ""])
        for name, part in schema["$defs"].items()
        if name in models
    ]
    return "\n".join([_HEAD, *sections])


def _models(root: type[Declared]) -> Iterator[type[Declared]]:
    """Yield all models that a model consists of, itself included."""
    seen: set[type] = set()
    waiting: list[Any] = [root]
    while waiting:
        kind = waiting.pop()
        waiting.extend(getattr(kind, "__args__", ()))
        waiting.extend([kind.__origin__] if hasattr(kind, "__metadata__") else [])
        if isinstance(kind, type) and issubclass(kind, Declared) and kind not in seen:
            seen.add(kind)
            yield kind
            waiting.extend(field.annotation for field in kind.written().values())


def _section(model: type[Declared], schema: dict[str, Any]) -> list[str]:
    return [
        f"## {model.__name__}",
        "",
        _first_sentence(model),
        "",
        "| field | type | default | meaning |",
        "| --- | --- | --- | --- |",
        *_fields(model, schema),
    ]


def _fields(model: type[Declared], schema: dict[str, Any]) -> list[str]:
    """Return a line of a table for each field of a model, by a schema that has these fields."""
    meanings = _meanings(model)
    lines = []
    attributes = {info.alias: attribute for attribute, info in model.model_fields.items()}
    for name, field in model.written().items():
        shown = "" if field.is_required() else _default(field)
        kind = _kind(schema["properties"][name])
        cells = [f"`{name}`", kind, shown, meanings.get(name) or meanings[attributes[name]]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def _first_sentence(model: type[BaseModel]) -> str:
    return (inspect.getdoc(model) or "").partition("\n\n")[0].replace("\n", " ")


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return what each field means, from the docstrings of the model and of its base classes."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        names: list[str] = []
        for line in ((kind.__doc__ and inspect.cleandoc(kind.__doc__)) or "").splitlines():
            if (entry := _ENTRY.match(line)) is not None:
                names = entry[1].split(", ")
                found.update(dict.fromkeys(names, entry[2]))
            elif line.startswith("        ") and names:
                found.update({name: f"{found[name]} {line.strip()}" for name in names})
            else:
                names = []
    meanings = {name: _ROLE.sub(r"`\1`", text).replace("``", "`") for name, text in found.items()}
    return {**_meanings_by_format(), **meanings} if issubclass(model, RecordRows) else meanings


def _meanings_by_format() -> dict[str, str]:
    """Return what each field of a format of values means, with the formats that have it."""
    found: dict[str, list[str]] = {}
    for form in VALUE_FORMATS.values():
        meanings = _meanings(form)
        for name in form.model_fields.keys() - ValueFormat.model_fields.keys():
            text = meanings[name]
            found.setdefault(name, []).append(f"{form.title}: {text[0].lower()}{text[1:]}")
    return {name: " ".join(texts) for name, texts in found.items()}


def _kind(part: dict[str, Any]) -> str:
    """Return the type of a field in words."""
    if "$ref" in part:
        name = part["$ref"].removeprefix(_REFERENCE)
        return f"[{name}](#{name.lower()})"
    if "const" in part:
        return f"`{part['const']}`"
    if "enum" in part:
        return ", ".join(f"`{value}`" for value in part["enum"])
    for choice in ("anyOf", "oneOf"):
        if choice in part:
            kinds = [_kind(each) for each in part[choice] if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    return _SIMPLE[part["type"]](part)


_SIMPLE: dict[str, Callable[[dict[str, Any]], str]] = {
    "string": lambda part: {
        "duration": "duration",
        "date-time": "instant",
        "password": "secret",
    }.get(part.get("format", ""), "text"),
    "integer": lambda _: "integer",
    "number": lambda _: "number",
    "boolean": lambda _: "true, false",
    "array": lambda part: f"list of {_kind(part['items'])}",
    "object": lambda part: _kind_of_map(part["additionalProperties"]),
}


def _kind_of_map(values: dict[str, Any] | bool) -> str:
    return "map" if isinstance(values, bool) else f"map to {_kind(values)}"


def _default(field: FieldInfo) -> str:
    if isinstance(field.json_schema_extra, dict) and "environment" in field.json_schema_extra:
        return "from the environment"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "its defaults"
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, timedelta):
        return f"`{_written(value)}`"
    if isinstance(value, datetime):
        return f"`{value.isoformat().replace('+00:00', 'Z')}`"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _written(span: timedelta) -> str:
    seconds = span.total_seconds()
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
