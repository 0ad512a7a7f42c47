"""Sample of a pipeline's keys: its share, columns and range, and the declaration that reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from sources.config.document.yaml_document import KEPT, read_document
from sources.config.loader import KeptDefinition, LoadedPipeline, load_pipeline
from sources.config.table.sampled_share import Sample
from sources.errors import InputError
from sources.storage.folder import Folder

_PERCENT = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*%")
# What decides what is read, and what becomes of it. All else is about who sees, runs or approves.
_SAME = (
    "name",
    "event_time",
    "key",
    "allowed_lateness",
    "sequence",
    "seam_filter",
    "rules",
    "transform",
    "audit",
    "s3",
    "hdfs",
)
# Where a source's bad records go, and how slowly it is read.
_NOT_OF_ITS_SOURCES = ("asset", "quarantine", "rate")


@dataclass(frozen=True)
class SampleOptions:
    """Options of a trial: which part of a pipeline is run.

    Attributes:
        share: Which part of the keys is read, above 0 and at most 1.
        by: Columns whose values are the keys; empty for the pipeline's ``key``.
        since: First event time that is read (inclusive); None for no limit.
        until: First event time that is no longer read (exclusive); None for no limit.
        keep: Folder that the table is kept in; None if it is removed.
    """

    share: float
    by: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    keep: Path | None = None


def parse_share(text: str) -> float:
    """Return a percentage from a command line as a fraction, such as 0.01 for ``1%``.

    Raises:
        InputError: It is not a percentage, or not above 0 and up to 100.
    """
    found = _PERCENT.fullmatch(text.strip())
    hint = "Write a percentage of the keys, such as `1%`; `100%` reads all of them."
    if found is None:
        message = f"`{text}` is not a percentage."
        raise InputError(message, hint, value=text)
    share = float(found[1]) / 100
    if not 16.0**-8 <= share <= 1:
        message = (
            f"`{text}` is out of range: a sample has more than 0% and at most 100% of the keys."
        )
        raise InputError(message, hint, value=text)
    return share


def sample_of(loaded: LoadedPipeline, options: SampleOptions) -> Sample:
    """Return the declaration of a sample, which replaces the pipeline's own, if it has one.

    Args:
        loaded: The pipeline.
        options: The part to run.

    Raises:
        InputError: No columns are named to sample by, they differ between changes of a row, or the
            range is empty.
    """
    pipeline = loaded.pipeline
    if not (by := list(options.by) or pipeline.key):
        message = (
            f"Pipeline `{pipeline.name}` declares no `key`, so it is unknown by which columns a "
            "sample of its keys is taken."
        )
        hint = (
            "Name columns that all sources have, such as what the transform groups by: "
            "`--by COLUMN`; or declare `key: [COLUMN, …]`."
        )
        raise InputError(message, hint, pipeline=pipeline.name, field="key")
    others = [name for name in by if name not in pipeline.sink.key]
    if pipeline.sink.sequence and others:
        message = (
            f"The changes of one row may differ in `{others[0]}`, so a sample by this column would "
            "have some versions of a row and lack others."
        )
        hint = f"Name columns of `sink.key` by `--by`: {', '.join(pipeline.sink.key)}."
        raise InputError(message, hint, pipeline=pipeline.name, column=others[0])
    if options.since and options.until and options.since >= options.until:
        message = f"The range from {options.since:%F %T} until {options.until:%F %T} is empty."
        raise InputError(message, "Choose an `--until` that is later than `--since`.")
    return Sample(share=options.share, by=by, since=options.since, until=options.until)


def declare_sample(
    loaded: LoadedPipeline, sample: Sample, folder: Path, table: Path
) -> LoadedPipeline:
    """Write the declaration of the pipeline that reads a sample, and return that pipeline.

    It differs from the pipeline in where it reads (the sample), writes (state and target), and runs
    (a driver of its own on this machine).

    Args:
        loaded: The pipeline, as its file is now.
        sample: The sample.
        folder: Local folder for its file and its state.
        table: Local folder of its target.

    Raises:
        InputError: The declaration is not valid.
        StateError: The folder can't be written.
    """
    document: Mapping[str, Any] = read_document(loaded.path)
    spark = document.get("spark") or {}
    declared = {
        **{name: document[name] for name in _SAME if name in document},
        "sources": [
            {name: value for name, value in each.items() if name not in _NOT_OF_ITS_SOURCES}
            for each in document["sources"]
        ],
        "sample": sample.model_dump(mode="json", exclude_none=True),
        "sink": {**document["sink"], "path": str(table), "table": None},
        "state": str(folder / "state"),
        "spark": {
            "master": loaded.pipeline.spark.master if _is_local(loaded) else "local[*]",
            **{name: spark[name] for name in ("driver_memory", "conf") if name in spark},
        },
    }
    if late := (document.get("supervision") or {}).get("late_rows"):
        declared["supervision"] = {"late_rows": late}
    place = Folder(folder / "definition")
    origin = KeptDefinition(generation=None, home=str(loaded.folder), code=str(loaded.code[0]))
    place.replace(KEPT, origin)
    place.replace_bytes(loaded.path.name, yaml.safe_dump(declared, sort_keys=False).encode())
    return load_pipeline(folder / "definition" / loaded.path.name)


def _is_local(loaded: LoadedPipeline) -> bool:
    return loaded.pipeline.spark.master.startswith("local")
