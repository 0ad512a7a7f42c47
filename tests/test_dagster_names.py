"""Names in Dagster by which others select: those that docs/versions.md lists, and no others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from hybrid_extensions.cdc.tables.template import FoundTable, Template
from hybrid_extensions.generations.declare import GenerationsSection
from orchestration.capture.slot_state import has_slot
from orchestration.definitions import find_definitions, find_pipelines
from orchestration.defs import keys as assets
from sources.config.loader import LoadedPipeline
from sources.hybrid import Boundedness
from tests.extensions import whole
from tests.hybrid_extensions.cdc.tables.test_template import SHOP, template
from tests.names_page import ROOT, Row, require_same, rows
from tests.orchestration.generations.generation_case import GenerationCase

HEADINGS = ["Assets", "Checks", "Jobs", "Sensors", "Schedules", "Forms of jobs"]
NIGHT = {"cron": "0 3 * * *"}
Words = dict[str, str]
"""What the words in angle brackets stand for."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The examples, and what none of them declares."""
    scheduled, captured = (tmp_path_factory.mktemp(name) for name in ("scheduled", "captured"))
    reruns = [{"name": "days", **NIGHT}]
    GenerationCase(scheduled).write(
        approve=True,
        about={"group": "shop"},
        ranges={"by": "day", "start": "2024-01-01", "automatic": True, "reruns": reruns},
        generations={"reruns": [{"name": "again", **NIGHT}]},
        upkeep=[{"name": "nightly", **NIGHT}],
        training_sets=[
            {
                "name": "delays",
                "labels": {"path": "l", "key": ["id"], "time": "at", "start": "2024-01-01"},
                "path": "training",
                "tables": [{"name": "own", "columns": ["n"]}],
            }
        ],
    )
    tables = template(
        captured,
        database={**SHOP["database"], "follow": "while_reading"},
        compare=NIGHT,
        cuts={"path": "cuts", "every": "60 s"},
        changes={"bootstrap_servers": "broker:9092", "on_bad_record": "quarantine"},
    )
    tables.write(FoundTable("public.orders", {"id": "bigint"}, ["id"], []))
    return [ROOT / "examples", scheduled, captured]


@pytest.fixture(scope="module")
def definitions(places: list[Path]) -> dg.Definitions:
    return find_definitions(places)


@whole
@pytest.mark.parametrize("heading", HEADINGS)
def test_names_in_dagster_are_those_of_the_page(
    heading: str, places: list[Path], definitions: dg.Definitions
) -> None:
    require_same(heading, listed(heading, places), there(definitions)[heading])


@whole
def test_each_row_of_the_page_is_tried(places: list[Path]) -> None:
    tried = {scope for _, scopes in declared(places) for scope, found in scopes.items() if found}
    scopes = {row[-1][0] for heading in HEADINGS for row in rows(heading)}
    assert sorted(scopes - tried) == []


def test_tags_and_pool_are_those_of_the_page(definitions: dg.Definitions) -> None:
    tags = {getattr(assets, name) for name in dir(assets) if name.endswith("_TAG")}
    require_same("Tags", {name for (name,), _ in rows("Tags")}, tags)
    nodes = [node for job in definitions.resolve_all_job_defs() for node in job.nodes]
    pools = {pool for node in nodes for pool in node.definition.pools}
    require_same("Pools", {name for (name,), _ in rows("Pools")}, pools)


def there(definitions: dg.Definitions) -> Mapping[str, set[str]]:
    """The names that Dagster has, by the heading of the page."""
    graph, found = definitions.resolve_asset_graph(), defaultdict(set)
    for key in graph.get_all_asset_keys():
        found["Assets"].add(f"{key.to_user_string()} in {graph.get(key).group_name}")
    for check in graph.asset_check_keys:
        found["Checks"].add(f"{check.asset_key.to_user_string()} {check.name}")
    for job in definitions.resolve_all_job_defs():
        # Dagster's own, of assets that no job has.
        if not job.name.startswith("__"):
            found["Jobs"].add(job.name)
            found["Forms of jobs"] |= {line for node in job.nodes for line in form_of(node)}
    repository = definitions.get_repository_def()
    found["Sensors"] = {each.name for each in repository.sensor_defs}
    found["Schedules"] = {each.name for each in repository.schedule_defs}
    return found


def form_of(node: Any) -> Iterator[str]:
    """Each field of a step's configuration, after the step's name."""
    kind = node.definition.config_schema.config_type
    for name, field in (getattr(kind, "fields", None) or {}).items():
        yield f"{node.name} {name}"
        if name == "action":
            # A field with a default may be null.
            kind = getattr(field.config_type, "inner_type", field.config_type)
            if hasattr(kind, "enum_values"):
                yield from (f"{node.name} {value.config_value}" for value in kind.enum_values)
                continue
            for action, its in kind.non_scalar_type.fields.items():
                yield f"{node.name} {action}"
                yield from (f"{node.name} {action}.{each}" for each in its.config_type.fields)


def listed(heading: str, places: list[Path]) -> set[str]:
    """The names that the page has below a heading, for what is declared."""
    return {
        filled(name, {**words, **found})
        for words, scopes in declared(places)
        for row in rows(heading)
        for found in scopes.get(row[-1][0], [])
        for name in names_in(heading, row)
    }


def names_in(heading: str, row: Row) -> list[str]:
    if heading == "Assets":
        return [f"{row[0][0]} in {row[1][0]}"]
    if heading in {"Checks", "Forms of jobs"}:
        return [f"{row[0][0]} {name}" for name in row[1]]
    return row[0]


def filled(name: str, words: Words) -> str:
    for word, text in words.items():
        name = name.replace(f"<{word}>", text)
    assert "<" not in name, f"docs/versions.md: nothing stands for a word of `{name}`"
    return name


def declared(places: list[Path]) -> Iterator[tuple[Words, dict[str, list[Words]]]]:
    """Of each pipeline and each file with `tables`: words, and how often it has a thing."""
    pipelines, groups, unreadable = find_pipelines(places)
    assert not unreadable
    made = [loaded for each in groups for loaded in each.load()[0]]
    for loaded in [*pipelines, *made]:
        name, group = loaded.pipeline.name, loaded.pipeline.about.group
        words = {"group": group or name, "steps": f"{group}_steps" if group else name}
        yield {"pipeline": name, **words}, of_pipeline(loaded)
    for each in groups:
        yield {"name": each.name}, of_template(Template(each.path))
    yield {}, {"several pipelines": [{}]}


def of_pipeline(loaded: LoadedPipeline) -> dict[str, list[Words]]:
    """What a pipeline has of the things that the page speaks of, with a word for each."""
    pipeline = loaded.pipeline
    live = [each for each in pipeline.sources if each.boundedness is not Boundedness.BOUNDED]
    schedules: list[Any] = [
        *loaded.section(GenerationsSection).generations.reruns,
        *(each for part in loaded.sections for each in getattr(part, "upkeep", [])),
    ]
    comparisons = [found for each in loaded.sections if (found := getattr(each, "compare", None))]
    schedules += comparisons
    ranges = next((each.ranges for each in loaded.sections if hasattr(each, "ranges")), None)
    if ranges is not None:
        schedules += ranges.reruns
    feeds = [each for part in loaded.sections for each in getattr(part, "feeds", [])]
    sets = [each for part in loaded.sections for each in getattr(part, "training_sets", [])]
    compared = [each for each in feeds if each.type in {"postgres", "redis"}]
    return {
        "each pipeline": [{}],
        "each source": each_of("source", pipeline.sources),
        "each Kafka source": each_of("source", pipeline.topics),
        "the unbounded source": each_of("source", live),
        "a replication slot": each_of("source", live if has_slot(loaded) else []),
        "changes that may be left out": each_of(
            "source", live if pipeline.mirrors_that_leave_out_changes else []
        ),
        "a snapshot": [{}] if any(each.snapshot for each in pipeline.sources) else [],
        "follow: while_reading": [{}]
        if any(each.follows_while_reading for each in pipeline.file_sources)
        else [],
        "compare": [{}] if comparisons else [],
        "approve": [{}] if pipeline.approve else [],
        "ranges": [{}] if ranges is not None else [],
        "ranges.automatic": [{}] if ranges and ranges.automatic else [],
        "each schedule": each_of("schedule", schedules),
        "feeds": [{}] if feeds else [],
        "each feed": each_of("feed", feeds),
        "keep": each_of("feed", [each for each in feeds if each.keep]),
        "training_sets": each_of("set", sets),
        "each feed into PostgreSQL or Redis": each_of("feed", compared),
        "each topic": [{"topic": topic} for each in pipeline.topics for topic in each.topics],
        "each folder of files": [{"folder": folder} for folder in folders_of(loaded)],
    }


def each_of(word: str, items: Iterable[Any]) -> list[Words]:
    return [{word: each.name} for each in items]


def of_template(found: Template) -> dict[str, list[Words]]:
    """What a file with `tables` has besides the pipelines of its tables."""
    has_cuts = "cuts" in (found.declared.model_extra or {})
    return {"tables": [{}], "cuts": [{}] if has_cuts else []}


def folders_of(loaded: LoadedPipeline) -> Iterator[str]:
    """The last two folders before the first glob, of files that the pipeline does not make."""
    read = [each for each in loaded.pipeline.bounded_files if each.snapshot is None]
    for pattern in chain(*(each.patterns for each in read)):
        parts = takewhile(lambda part: "*" not in part, Path(loaded.locate(pattern)).parts)
        yield "/".join(list(parts)[-2:])
