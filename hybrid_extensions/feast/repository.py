"""Files of a Feast repository: a module, replaced only if written here; settings are kept."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from hybrid_extensions.feast.feature_view import View
from sources.errors import InputError

SETTINGS = "feature_store.yaml"
_WRITTEN = "# Written by `hybrid export feast`, which replaces this file."


def write_repository(view: View, folder: Path) -> list[Path]:
    """Write a feature view into the folder of a Feast repository, which is made if need be.

    Its module is replaced; settings that are there are left as they are.

    Args:
        view: The view.
        folder: The folder.

    Returns:
        The files that were written: the module, and the settings if there were none.

    Raises:
        InputError: The module is not one that was written here, or the folder can't be written.
    """
    module, settings = folder / f"{view.name}.py", folder / SETTINGS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if module.exists() and not module.read_text().startswith(_WRITTEN):
            message = f"{module} was not written by `hybrid export feast`, so it is not replaced."
            raise InputError(message, "Name another folder: `--out FOLDER`.", file=str(module))
        _replace(module, definitions(view))
        if settings.exists():
            return [module]
        _replace(settings, settings_of(view))
    except OSError as error:
        message = f"The repository {folder} can't be written: {error.strerror or error}."
        raise InputError(
            message, "Name another folder: `--out FOLDER`.", file=str(folder)
        ) from None
    return [module, settings]


def definitions(view: View) -> str:
    """Return a Python module that defines a view, its source and its entities for Feast."""
    types = sorted({name for kind in view.features.values() for name in re.findall(r"\w+", kind)})
    lines = [
        _WRITTEN,
        "from datetime import timedelta",
        "",
        "from feast import Entity, FeatureView, Field, FileSource, ValueType",
        "from feast.data_format import DeltaFormat",
        *([f"from feast.types import {', '.join(types)}"] if types else []),
        "",
    ]
    entities = [_variable(f"{name}_entity") for name in view.keys]
    for (name, kind), variable in zip(view.keys.items(), entities, strict=True):
        entity = f"name={name!r}, join_keys=[{name!r}], value_type=ValueType.{kind}"
        lines.append(f"{variable} = Entity({entity})")
    source = {
        "name": repr(f"{view.name}_table"),
        "path": repr(view.path),
        "file_format": "DeltaFormat()",
        "timestamp_field": repr(view.known_at),
        **({} if view.created is None else {"created_timestamp_column": repr(view.created)}),
        **({} if view.endpoint is None else {"s3_endpoint_override": repr(view.endpoint)}),
    }
    lines += ["", f"{view.name}_table = FileSource("]
    lines += [f"    {name}={value}," for name, value in source.items()]
    lines += [")", "", f"{view.name} = FeatureView(", f"    name={view.name!r},"]
    lines += [f"    entities=[{', '.join(entities)}],", "    # Values hold until the next ones."]
    lines += ["    ttl=timedelta(0),", "    schema=["]
    lines += [
        f"        Field(name={name!r}, dtype={kind})," for name, kind in view.features.items()
    ]
    lines += ["    ],", f"    source={view.name}_table,", ")", ""]
    return "\n".join(lines)


def settings_of(view: View) -> str:
    """Return the settings of a Feast repository that reads Delta tables by DuckDB, as YAML."""
    settings = {
        "project": view.name,
        "provider": "local",
        "registry": "data/registry.db",
        "offline_store": {"type": "duckdb"},
        "online_store": {"type": "sqlite", "path": "data/online_store.db"},
        "entity_key_serialization_version": 3,
    }
    return yaml.safe_dump(settings, sort_keys=False)


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name if not name[0].isdigit() else f"_{name}")


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.replace(path)
