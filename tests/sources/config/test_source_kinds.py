"""Kinds of sources that extensions add: what is no kind is refused by its distribution."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from sources.config.source.exported_source import Export, ExportedSource, ExportEnd
from sources.config.source.source_kinds import exported_kinds
from sources.errors import InputError


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
    assert exported_kinds([{}, {"pages": Pages}]) == {"pages": Pages}


@pytest.mark.parametrize(
    ("adds", "why"),
    [
        ([{"pages": object}], "is no subclass of .*ExportedSource"),
        ([{"files": Files}], "another kind has this name"),
        ([{"pages": Pages}, {"pages": Pages}], "another kind has this name"),
        ([{"two words": Spaced}], "begins with a letter"),
        ([{"sheets": Pages}], r'`type` is not declared as `Literal\["sheets"\]`'),
        ([{"unfinished": Unfinished}], "has no method `export`"),
    ],
)
def test_what_is_no_kind_is_refused(adds: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(InputError, match=why):
        exported_kinds(adds)


def test_the_refusal_names_the_distribution_that_adds_the_kind() -> None:
    with pytest.raises(InputError, match="uninstall the distribution `pydantic`, which adds it"):
        exported_kinds([{"pages": BaseModel}])
