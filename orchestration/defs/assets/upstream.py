"""Upstream data as external assets with shared keys; none for what the pipeline makes itself."""

from __future__ import annotations

import re
from itertools import takewhile

import dagster as dg

from sources.config.loader import LoadedPipeline
from sources.config.source.exported_source import ExportedFiles
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.source_kinds import AnySource

_GLOB = set("*?[{")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.=-]+")
_SHOWN_FOLDERS = 2
# Ways to a folder, not names of one.
_NOWHERE = {"", ".", ".."}
_GROUP = "sources"


def upstream_specs(loaded: LoadedPipeline) -> list[dg.AssetSpec]:
    """Return an external asset for each upstream topic and place of files that a pipeline reads.

    Pipelines that read the same topic or place share its asset. There is none for a source that
    declares its ``asset``, which is defined where that data is made, nor for one whose files the
    pipeline makes itself, as a snapshot of a database table, or an export.
    """
    return [
        dg.AssetSpec(key, description=text, kinds=kinds, group_name=_GROUP)
        for source in loaded.pipeline.sources
        if source.asset is None
        for key, text, kinds in _of(loaded, source)
    ]


def upstream_keys(loaded: LoadedPipeline, source: str) -> list[dg.AssetKey]:
    """Return the keys of the upstream assets, outside of the pipeline, that one source reads.

    Empty for files that the pipeline makes itself, as a snapshot or an export.

    Args:
        loaded: The pipeline.
        source: Name of the source, which the pipeline has to have.
    """
    declared = loaded.pipeline.source(source)
    if declared.asset is not None:
        return [dg.AssetKey(declared.asset.split("/"))]
    return [key for key, _, _ in _of(loaded, declared)]


def live_upstream(loaded: LoadedPipeline) -> list[dg.AssetKey]:
    """Return the keys of the upstream assets, outside of the pipeline, that its live run reads."""
    followed = loaded.pipeline.followed
    return list(dict.fromkeys(key for each in followed for key in upstream_keys(loaded, each.name)))


def _of(loaded: LoadedPipeline, source: AnySource) -> list[tuple[dg.AssetKey, str, set[str]]]:
    """Return key, description and kinds of what a source reads.

    A description follows from the key alone: Dagster refuses two assets of one key that differ.
    """
    if source.snapshot is not None or isinstance(source, ExportedFiles):
        return []
    if isinstance(source, KafkaSource):
        names = source.topics or [str(source.topic_pattern)]
        return [(_key("kafka", name), f"Kafka topic `{name}`.", {"kafka"}) for name in names]
    if source.table is not None:
        return [
            (_key("table", *source.table.split(".")), f"Table `{source.table}`.", {source.format})
        ]
    places = {_key(*_parts(loaded.locate(pattern))) for pattern in source.patterns}
    return [(key, f"Files in `…/{'/'.join(key.path[1:])}`.", {"file"}) for key in sorted(places)]


def _key(*parts: str) -> dg.AssetKey:
    return dg.AssetKey([_UNSAFE.sub("_", part) for part in parts])


def _parts(pattern: str) -> list[str]:
    """Return the parts of a key for files: the folders before the first glob, of a disk the last.

    Where a disk is mounted is the machine's own affair; a bucket's name is not.
    """
    scheme, _, rest = pattern.rpartition("://")
    folders = list(takewhile(lambda part: not _GLOB & set(part), rest.split("/")))
    folders = [part for part in folders if part not in _NOWHERE]
    return [scheme, *folders] if scheme else ["files", *folders[-_SHOWN_FOLDERS:]]
