"""Kinds of sources that extensions add: what is no kind is refused by its distribution."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from sources.config.source.exported_source import Export, ExportedSource, ExportEnd
from sources.config.source.source_kinds import SOURCE_MODELS, added_kinds
from sources.errors import InputError
from tests.minimal import minimal_model, minimal_pipeline
from tests.sources.planning.export_kind import Numbers


class Pages(ExportedSource):
    type: Literal["pages"]

    def export(self, export: Export) -> ExportEnd:
        raise NotImplementedError


class Unfinished(ExportedSource):
    type: Literal["unfinished"]


class Files(Pages):
    type: Literal["files"]  # type: ignore[assignment]


class Spaced(Pages):
    type: Literal["two words"]  # type: ignore[assignment]


def test_a_kind_is_found_by_its_name() -> None:
    assert added_kinds([{}, {"pages": Pages}]) == {"pages": Pages}


@pytest.mark.parametrize(
    ("adds", "why"),
    [
        ([{"pages": object}], "is no subclass of .*AddedSource"),
        ([{"files": Files}], "another kind has this name"),
        ([{"pages": Pages}, {"pages": Pages}], "another kind has this name"),
        ([{"two words": Spaced}], "begins with a letter"),
        ([{"sheets": Pages}], r'`type` is not declared as `Literal\["sheets"\]`'),
        ([{"unfinished": Unfinished}], "has no method `export`"),
    ],
)
def test_what_is_no_kind_is_refused(adds: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(InputError, match=why):
        added_kinds(adds)


def test_the_refusal_names_the_distribution_that_adds_the_kind() -> None:
    with pytest.raises(InputError, match="uninstall the distribution `pydantic`, which adds it"):
        added_kinds([{"pages": BaseModel}])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            {"name": "history", "type": "sheets"},
            f"sources.0.type: `sheets` is not known here; known are {', '.join(SOURCE_MODELS)}. "
            "Correct it, or install the extension that adds it.",
        ),
        ({"name": "history"}, "sources.0.type: this field is needed, but not declared. Add it."),
    ],
)
def test_a_kind_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, source: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        minimal_pipeline(tmp_path, source)
    assert said in str(caught.value)


def test_only_a_source_of_an_extensions_kind_is_found_as_exported() -> None:
    pipeline = minimal_model(Numbers(name="history").as_files())  # type: ignore[arg-type]
    assert pipeline.exported_source("history").name == "history"
    with pytest.raises(InputError, match="There is no source `other`"):
        pipeline.exported_source("other")
    files = {"type": "files", "name": "history", "format": "parquet", "path": "in/*"}
    with pytest.raises(InputError, match="`type: files`, which is not exported"):
        minimal_model(files).exported_source("history")
