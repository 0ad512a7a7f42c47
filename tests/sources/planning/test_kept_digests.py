"""Digests of declarations: those that states hold stay valid, whatever becomes of the models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from sources.config.document.yaml_document import validated
from sources.config.loader import LoadedPipeline, declare
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.decoding.value_formats.registry import VALUE_FORMATS, formats_of_fields
from sources.errors import StateError
from sources.formats.csv_options import CsvOptions
from sources.planning.declaration_digests import PlannedBy, is_planned_by, keep_declaration
from tests.extensions import skip_without_those_of, whole

# As an early version wrote them. What is declared here never gets other digests: a state would
# refuse to continue. A new option gets a line of its own.
KEPT: list[dict[str, Any]] = json.loads((Path(__file__).parent / "kept_digests.json").read_text())


@pytest.mark.parametrize("kept", KEPT, ids=range(len(KEPT)))
def test_a_declaration_has_the_digests_that_older_states_hold(kept: dict[str, Any]) -> None:
    path = Path("/pipelines/orders.yaml")
    skip_without_those_of(kept["declared"])
    # What extensions declare is in no digest, and the core knows no field of theirs.
    own = {name: given for name, given in kept["declared"].items() if name in Pipeline.model_fields}
    loaded = LoadedPipeline(path, validated(path, own, Pipeline, {}))
    loaded = replace(loaded, pipeline=loaded.pipeline.located(loaded.locate))
    assert PlannedBy.of(loaded).parts == kept["digests"]


@whole
def test_kept_declarations_have_every_format_and_every_field_of_one() -> None:
    sources = [source for kept in KEPT for source in kept["declared"]["sources"]]
    of_topics = [each for each in sources if each["type"] == "kafka"]
    of_files = {each["format"] for each in sources if each["type"] == "files"}
    assert {each.get("format", "json") for each in of_topics} == set(VALUE_FORMATS)
    assert of_files == set(get_args(FileSource.model_fields["format"].annotation))
    assert formats_of_fields().keys() <= {field for each in of_topics for field in each}


def test_an_option_that_came_later_counts_only_where_it_is_declared() -> None:
    five = {"delimiter", "header", "quote", "null", "multiline"}
    assert CsvOptions(delimiter=";").contract().keys() == five
    assert CsvOptions(escape="\\").contract() == {**CsvOptions().contract(), "escape": "\\"}


@pytest.mark.parametrize("now", ["{folder}/in/*", "./in/*", "in/../in/*", "in/*"])
@pytest.mark.parametrize("before", ["in/*", "{folder}/in/*"])
def test_a_folder_may_be_written_in_another_way_under_a_state(
    tmp_path: Path, before: str, now: str
) -> None:
    def declared(pattern: str) -> LoadedPipeline:
        files = {"type": "files", "format": "parquet", "name": "history"}
        document = {
            "name": "orders",
            "event_time": "at",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": "state",
            "sources": [{**files, "path": pattern.format(folder=tmp_path)}],
            "transform": "own:rows",
        }
        return declare(tmp_path / "orders.yaml", document)

    first = declared(before)
    generation = first.open_generation(create=True)
    assert generation is not None
    keep_declaration(first, generation)
    again = declared(now)
    assert again.require_generation().name == generation.name
    assert is_planned_by(again, generation)
    with pytest.raises(StateError, match=r"`sources.history` of pipeline `orders` changed"):
        declared("other/*").require_generation()
    assert not is_planned_by(declared("{folder}/other/*"), generation)
