"""Datasets that a pipeline reads and writes, in OpenLineage's names and facets; lineage of columns.

Names: https://openlineage.io/docs/spec/naming
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import attr
from deltalake.exceptions import TableNotFoundError
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    input_statistics_input_dataset,
    schema_dataset,
)

from sources.common.positions import Offsets, TopicPartition, nest
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.hybrid import Boundedness
from sources.kafka.client.address import resolve_bootstrap
from sources.ledger import read_ledger
from sources.planning.context import PipelineContext
from sources.planning.files.file_plan import FilePlan
from sources.planning.transform_analysis import read_analysis
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table
from spark_jobs.checkpoint import offset_log

_MAGIC = re.compile(r"[*?\[]")


@attr.define
class OffsetsInputDatasetFacet(InputDatasetFacet):
    """Facet of OpenLineage with the offsets of a topic that are read.

    Attributes:
        start: First offset of each partition, by topic, then by partition.
        end: First offset of each partition that is not read, likewise; empty if nothing is
            committed yet.
    """

    start: dict[str, dict[str, int]]
    end: dict[str, dict[str, int]] = attr.field(factory=dict)


def inputs_of(
    loaded: LoadedPipeline, context: PipelineContext | None, source: str | None
) -> list[InputDataset]:
    """Return the OpenLineage datasets that a pipeline's sources read.

    Args:
        loaded: The pipeline.
        context: The pipeline with its plan; None if nothing is planned yet, which leaves columns,
            sizes, offsets, and the place of an export out.
        source: Name of the only source; None for all of them, in the order of the declaration. Of
            an unknown one the list is empty.

    Raises:
        InputError: The state's store refuses.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer, or the local broker does not run.
    """
    # The state knows where an export is.
    pipeline = loaded.pipeline if context is None else context.pipeline
    named = [each for each in pipeline.sources if source in (None, each.name)]
    found: list[InputDataset] = []
    for each in named:
        if isinstance(each, FileSource):
            found += _files(loaded, context, each)
        else:
            found += _topics(context, each)
    return found


def output_of(
    loaded: LoadedPipeline, target: Folder, inputs: Iterable[InputDataset]
) -> OutputDataset:
    """Return the OpenLineage dataset of the pipeline's target: version, columns and their lineage.

    What is not known yet is left out.

    Args:
        loaded: The pipeline.
        target: Folder of the target table.
        inputs: The datasets that its columns come from.

    Raises:
        InputError: The state's store refuses.
        StateError: The state is damaged.
        UnavailableError: A store does not answer.
    """
    namespace, name = named_place(target.url)
    facets: dict[str, Any] = {}
    try:
        version = delta_table(target).version()
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(version))
    except (TableNotFoundError, OSError):
        # The first run creates the table.
        pass
    generation = loaded.open_generation(create=False)
    analysis = None if generation is None else read_analysis(generation)
    if analysis is not None and analysis.columns is not None:
        facets["schema"] = _schema({each.name: each.type for each in analysis.columns})
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
            {
                column.name: column_lineage_dataset.Fields(
                    [
                        column_lineage_dataset.InputField(each.namespace, each.name, used)
                        for each in inputs
                        for used in column.inputs or []
                    ]
                )
                for column in analysis.columns
                if column.inputs
            }
        )
    return OutputDataset(namespace, name, facets=facets)


def named_place(path: str) -> tuple[str, str]:
    """Return OpenLineage's namespace and name of a file, folder or glob.

    Args:
        path: An absolute path or URL; of a glob, the folders before its first wildcard count.
    """
    if (magic := _MAGIC.search(path)) is not None:
        path = path[: magic.start()].rpartition("/")[0] or "/"
    path = path.removeprefix("file://")
    if "://" not in path:
        return "file", path
    url = urlsplit(path)
    name = url.path if url.scheme == "hdfs" else url.path.lstrip("/")
    return f"{url.scheme}://{url.netloc}", name or "/"


def _files(
    loaded: LoadedPipeline, context: PipelineContext | None, source: FileSource
) -> Iterator[InputDataset]:
    part = None if context is None else _plan_of(context, source)
    facets: dict[str, Any] = {}
    about: dict[str, Any] = {}
    patterns = source.patterns
    if part is not None:
        facets["schema"] = _schema(part.read)
        about["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=part.rows, size=part.bytes, fileCount=part.splits
        )
        patterns = patterns or [part.table or ""]
    if source.version is not None:
        version = dataset_version_dataset.DatasetVersionDatasetFacet(str(source.version))
        facets["version"] = version
    for namespace, name in dict.fromkeys(
        named_place(loaded.locate(pattern)) for pattern in patterns if pattern
    ):
        yield InputDataset(namespace, name, facets=facets, inputFacets=about)


def _plan_of(context: PipelineContext, source: FileSource) -> FilePlan | None:
    return next((part for part in context.plan.files if part.source == source.name), None)


def _topics(context: PipelineContext | None, source: KafkaSource) -> Iterator[InputDataset]:
    server = resolve_bootstrap(source.bootstrap_servers).split(",")[0].strip()
    topics: Iterable[str] = source.topics
    facets: dict[str, Any] = {}
    start: Offsets = {}
    end: Offsets = {}
    if context is not None and source in context.pipeline.topics:
        part = context.plan.topic_of(source.name)
        topics, facets = part.topics, {"schema": _schema(part.read)}
        ledger, _ = read_ledger(context.generation, source.name)
        if ledger is not None:
            start = {TopicPartition(at.topic, at.partition): at.start for at in ledger.entries}
        if source.boundedness is Boundedness.BOUNDED and part.range is not None:
            end = part.range.ends
        else:
            place = context.pipeline.place_of(source.name)
            end = offset_log.next_offsets(context.generation.checkpoint, place)
    for topic in topics:
        own, until = (
            {at: offset for at, offset in of.items() if at.topic == topic} for of in (start, end)
        )
        about: dict[str, InputDatasetFacet] = {}
        if own:
            about["hybrid_offsets"] = OffsetsInputDatasetFacet(_nested(own), _nested(until))
        yield InputDataset(f"kafka://{server}", topic, facets=facets, inputFacets=about)


def _nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    return {
        topic: {str(partition): offset for partition, offset in of.items()}
        for topic, of in nest(offsets).items()
    }


def _schema(columns: Mapping[str, str]) -> schema_dataset.SchemaDatasetFacet:
    return schema_dataset.SchemaDatasetFacet(
        [schema_dataset.SchemaDatasetFacetFields(name, kind) for name, kind in columns.items()]
    )
