"""File with `tables`: include, exclude, overrides; the pipeline made for each table with a key.

``shop.yaml`` with ``tables`` makes ``shop.<schema>.<table>.yaml`` next to it: an ordinary pipeline,
with state, ledger, generations, health and restarts of its own. The file keeps the columns and the
key that the table had when it was found, so that later runs do not depend on the database. All else
in it is made from the template again, whenever a command is run on that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, model_validator

from hybrid_extensions.cdc.tables.names import (
    file_part,
    folder_part,
    pipeline_name,
    table_of_file,
    topic_part,
)
from sources.common.fields import Declared, Name
from sources.config.document.yaml_document import read_document, validated
from sources.config.loader import WRITTEN, LoadedPipeline, declare
from sources.config.pipeline import Pipeline
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import InputError
from sources.extensions import contributions

_POSITION = "_position"
_INCLUDE = {_POSITION: "position", "_committed_at": "committed_at", "_deleted": "deleted"}
_MERGED = {"mode": "merge", "sequence": _POSITION, "deleted": "_deleted"}
_ENDING = ".yaml"


class Tables(Declared):
    """Which tables of the database are captured.

    Attributes:
        include: Patterns of ``schema.table``, such as ``public.*``, or of ``database.table``.
        exclude: Patterns of tables that are left out of these.
        overrides: By ``schema.table``: fields of the template that differ for this table.
    """

    include: list[str] = Field(min_length=1)
    exclude: list[str] = Field(default_factory=list)
    overrides: dict[str, dict[str, Any]] = Field(default_factory=dict)

    def has(self, table: str) -> bool:
        """Return whether a table matches ``include`` and not ``exclude``: globs, case-sensitive.

        Args:
            table: ``schema.table``.
        """
        is_included = any(fnmatchcase(table, pattern) for pattern in self.include)
        return is_included and not any(fnmatchcase(table, pattern) for pattern in self.exclude)


class TableTemplate(Declared):
    """Template of the pipelines of a database's tables; further fields are those of a pipeline.

    Attributes:
        name: Name of the whole, with which the names of its pipelines begin.
        database: How the database is reached, and how its tables are copied: the fields of a
            source's ``snapshot``. PostgreSQL needs ``slot``, the connector's replication slot.
        tables: Which tables are captured.
        topic: Name of a table's topic, with ``{schema}`` and ``{table}``.
        changes: Further fields of the source that reads the topic, such as ``bootstrap_servers``.
        snapshot: Glob of a table's snapshot, with ``{schema}`` and ``{table}``.
        sink: Fields of the sink; ``path`` has ``{table}``. By default changes are merged by the
            table's primary key.
    """

    model_config = ConfigDict(extra="allow")

    name: Name
    database: SnapshotOptions
    tables: Tables
    topic: str
    changes: dict[str, Any] = Field(default_factory=dict)
    snapshot: str = "snapshot/{schema}.{table}/*.parquet"
    sink: dict[str, Any]

    @model_validator(mode="after")
    def _makes_a_pipeline_for_each_table(self) -> TableTemplate:
        places = {
            "topic": self.topic,
            "snapshot": self.snapshot,
            "sink.path": self.sink.get("path"),
        }
        for field, text in places.items():
            if "{table}" not in str(text):
                what = f"`{field}: {text}` would be the same for all tables."
                if text is None:
                    what = f"`{field}` is missing."
                message = f"{what} Write `{{table}}` in it where the name of the table belongs."
                raise ValueError(message)
        models = (Pipeline, *contributions("section"))
        known = {field for model in models for field in model.model_fields}
        for field in self.model_extra or {}:
            if field not in known:
                message = f"`{field}` is neither a field of a pipeline nor of `tables`. Remove it."
                raise ValueError(message)
        overridden = {field for each in self.tables.overrides.values() for field in each}
        if own := overridden & {"name", "database", "tables"}:
            message = f"`tables.overrides` can't change `{min(own)}`, which all tables share."
            raise ValueError(message)
        return self


class FoundTable(NamedTuple):
    """A table that was found in the database, with what its pipeline has to declare.

    Attributes:
        name: ``schema.table``.
        columns: Spark SQL type by name of the column.
        key: Columns of the primary key; empty if it has none.
        ignored: Columns that are left out, as they can't be captured.
    """

    name: str
    columns: dict[str, str]
    key: list[str]
    ignored: list[str]


class Template:
    """A file that declares ``tables``, with the pipeline files of these tables next to it.

    Args:
        path: The file.

    Attributes:
        path: The file, absolute.
        declared: Its validated content.

    Raises:
        InputError: It can't be read, or a field is not valid.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._document: dict[str, Any] = read_document(self.path)
        self.declared = validated(self.path, self._document, TableTemplate)

    def file_of(self, table: str) -> Path:
        """Return the path of a table's pipeline file; it need not exist.

        Next to the template.

        Args:
            table: ``schema.table``.
        """
        return self.path.with_name(f"{self.path.stem}.{file_part(table)}{_ENDING}")

    def tables(self) -> list[str]:
        """Return the tables for which there is a file, sorted, as ``schema.table``.

        Only files that this project wrote count, by their first line.
        """
        start = f"{self.path.stem}."
        found: list[str] = []
        for file in self.path.parent.glob(f"*{_ENDING}"):
            table = table_of_file(file.name.removeprefix(start).removesuffix(_ENDING))
            if table is None or not file.name.startswith(start):
                continue
            if file.read_text().startswith(WRITTEN):
                found.append(table)
        return sorted(found)

    def load(self, table: str) -> LoadedPipeline:
        """Return the pipeline of a table; rewrite its file first if the template has changed.

        Columns and key are those of its file: the database is not asked.

        Args:
            table: ``schema.table``.

        Raises:
            InputError: There is no such file, or what the template makes of it is not valid.
            StateError: The file can't be written.
        """
        path = self.file_of(table)
        if not path.exists():
            known = ", ".join(self.tables()) or "none yet"
            message = f"{self.path.name} has no table `{table}`; there are: {known}."
            hint = "Correct the name, or look for tables: `hybrid tables P`."
            raise InputError(message, hint, file=str(self.path), table=table)
        document = read_document(path)
        changes, key = document["sources"][-1], document["sink"]["key"]
        ignored = changes.get("ignored_columns", [])
        return self.write(FoundTable(table, changes["schema"], key, ignored))

    def write(self, table: FoundTable) -> LoadedPipeline:
        """Write the pipeline's file of a table unless it is up to date, and return the pipeline.

        Args:
            table: The table as it is in the database, or as its file keeps it.

        Raises:
            InputError: What the template makes of it is not valid.
            StateError: The file can't be written.
        """
        return declare(self.file_of(table.name), self._pipeline(table))

    def lacks(self, table: FoundTable) -> str | None:
        """Return why a table can't be captured, and what to do about it; None if it can.

        A phrase for messages: the table has no key, or a name that can't be written.

        Args:
            table: The table as it is in the database.
        """
        if "${" in table.name:
            return "its name has `${`, which stands for an environment variable here: exclude it"
        made = _merged(self._document, self.declared.tables.overrides.get(table.name, {}))
        if (table.key and set(table.key) <= set(table.columns)) or "key" in made["sink"]:
            return None
        return (
            "it has no primary key that can be read. Declare `sink: {key: […]}` in "
            f"`tables.overrides: {{{table.name}: …}}`, with `mode: append` if rows are only "
            "inserted, or exclude it"
        )

    def _pipeline(self, table: FoundTable) -> dict[str, Any]:
        """Return the document of a table's pipeline."""
        made = _merged(self._document, self.declared.tables.overrides.get(table.name, {}))
        schema, _, name = table.name.partition(".")

        def placed(text: str, part: Callable[[str], str] = folder_part) -> str:
            return text.replace("{schema}", part(schema)).replace("{table}", part(name))

        changes = dict(made.get("changes", {}))
        # Of a table that keeps each change, a row is known by its position, too.
        is_merged = made["sink"].get("mode", _MERGED["mode"]) == _MERGED["mode"]
        default = {**_MERGED, "key": table.key} if is_merged else {"key": [*table.key, _POSITION]}
        sink = {**default, **made["sink"]}
        kind = self.declared.database.kind
        include = _INCLUDE | {f"_{part}": part for part in kind.parts}
        if kind.leaves_out:
            is_whole = "transform" not in made and "select" not in changes
            if is_merged and is_whole:
                # What its log lacks, or has besides rows; a transform might not pass it on.
                include["_unchanged"] = "unchanged"
                sink = {"unchanged": "_unchanged", **sink}
                changes = {"on_truncate": "follow", **changes}
        ignored = list(dict.fromkeys([*changes.get("ignored_columns", []), *table.ignored]))
        own = changes.pop("schema", {})
        ignored = [column for column in ignored if column not in own]
        types = {**table.columns, **own}
        rest = {k: v for k, v in made.items() if k not in TableTemplate.model_fields}
        share = {"driver": "shared", "group": made["name"], **made.get("spark", {})}
        if share["driver"] != "shared":
            del share["group"]
        snapshot = made.get("snapshot", self.declared.snapshot)
        return {
            "event_time": "_committed_at",
            "transform": "spark_jobs.inside.query.transform.unchanged:unchanged",
            **rest,
            "name": pipeline_name(made["name"], table.name),
            "about": {"group": made["name"], **rest.get("about", {})},
            "sources": [
                {
                    "name": "snapshot",
                    "type": "files",
                    "path": placed(snapshot),
                    "format": "parquet",
                    "snapshot": made["database"],
                },
                {
                    **changes,
                    "name": "changes",
                    "type": "kafka",
                    "topic": placed(made["topic"], topic_part),
                    "format": "debezium",
                    "table": table.name,
                    "schema": {n: kind for n, kind in types.items() if n not in ignored},
                    "include": include,
                    **({"ignored_columns": ignored} if ignored else {}),
                },
            ],
            "sink": {**sink, "path": placed(sink["path"])},
            "spark": share,
        }


def is_template(path: Path) -> bool:
    """Return whether a file declares ``tables``, and so makes a pipeline for each table.

    Looks for the field in the text without parsing it: whoever loads an invalid file then reports
    its errors. False if the file can't be read.
    """
    try:
        return re.search(r"^tables\s*:", path.read_text(), re.MULTILINE) is not None
    except (OSError, UnicodeDecodeError):
        return False


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with the values of another one on top, and so within the mappings in it."""
    made = dict(under)
    for name, value in over.items():
        inner = made.get(name)
        both = isinstance(inner, dict) and isinstance(value, dict)
        made[name] = _merged(inner, value) if both else value  # type: ignore[arg-type]
    return made
