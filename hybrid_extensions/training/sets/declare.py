"""Declaration of training sets in a pipeline's file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from sources.common.fields import Declared, Name
from sources.config.pipeline import Pipeline
from sources.config.section import Section
from sources.config.table.time_ranges import TimeRanges

LABEL_RANGE = "label_range"
"""Column by which a training set is partitioned: the begin of the range that a label is in."""


class Labels(TimeRanges):
    """Labels of a training set, and the ranges of their times that are computed one by one.

    Attributes:
        path: Parquet file, pattern of Parquet files such as ``labels/*.parquet``, or folder of a
            Delta table.
        key: Columns that identify a label, together with its time.
        time: Column with the time of a label: values have to be known then.
        by: Length of a range, in UTC.
        start: First day of the first range, such as ``2024-01-01``.
        end: Day after the last range; by default ranges are added as time passes.

    """

    path: str
    key: list[str] = Field(min_length=1)
    time: str


class Features(Declared):
    """Columns of one table that labels get: those of the row that was known last at their time.

    Attributes:
        name: Name of the table in the set: its columns become ``<name>__<column>``.
        columns: Columns of the table.
        pipeline: File of the pipeline whose table it is; this pipeline, without ``path``.
        path: Folder of a Delta table that no pipeline declares.
        key: Columns that labels and table share; those of ``sink.key`` that the labels have, of a
            pipeline's table.
        known_at: Column with the time at which a row became known; of a pipeline's table
            ``known_at``, or ``valid_from`` if it keeps every version.
        valid_from: Column with the time from which a row is valid, in place of ``known_at``.
        valid_to: With ``valid_from``: column with the time from which it is no longer; null if it
            still is.

    """

    name: Name
    columns: list[str] = Field(min_length=1)
    pipeline: str | None = None
    path: str | None = None
    key: Annotated[list[str], Field(min_length=1)] | None = None
    known_at: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None

    @model_validator(mode="after")
    def _is_one_table(self) -> Self:
        where = f"`tables` of a training set, `{self.name}`"
        if self.pipeline is not None and self.path is not None:
            message = f"{where}: both `pipeline` and `path` name its table. Remove one of them."
            raise ValueError(message)
        if self.valid_from is not None and self.known_at is not None:
            message = (
                f"{where}: both `known_at` and `valid_from` say when a row counts. Remove one of "
                "them."
            )
            raise ValueError(message)
        if self.valid_to is not None and self.valid_from is None:
            message = f"{where}: `valid_to` needs `valid_from`. Add it, or remove `valid_to`."
            raise ValueError(message)
        since = self.known_at or self.valid_from
        if self.path is not None and (self.key is None or since is None):
            message = (
                f"{where}: no pipeline declares the table, so its `key` and `known_at` or "
                "`valid_from` have to be declared. Add them."
            )
            raise ValueError(message)
        if twice := [each for each in self.columns if self.columns.count(each) > 1]:
            message = f"{where}: column `{twice[0]}` is listed twice. Remove one of them."
            raise ValueError(message)
        return self


class DeclaredSet(Declared):
    """A table of labels, each with the features that were known at its time.

    Attributes:
        name: Name of the set.
        labels: The labels, each of which becomes a row.
        tables: The tables with features.
        path: Folder of the Delta table to write. No two sets share one.
        max_nulls: Largest share of labels without a value, from 0 to 1, that a column may have: a
            check in Dagster.

    """

    name: Name
    labels: Labels
    tables: list[Features] = Field(min_length=1)
    path: str
    max_nulls: float = Field(default=1.0, ge=0, le=1)

    @model_validator(mode="after")
    def _tables_have_names(self) -> Self:
        if (twice := _twice([each.name for each in self.tables])) is not None:
            message = (
                f"training set `{self.name}` has two tables of the name `{twice}`. Rename one of "
                "them."
            )
            raise ValueError(message)
        return self


class TrainingSection(Section):
    """Section of a pipeline's file about training sets.

    Attributes:
        training_sets: Tables of labels with features that were known at their times, computed by
            ranges of label times.
    """

    # A set reads tables, whatever they were made of.
    takes_inputs: ClassVar[bool] = True
    training_sets: list[DeclaredSet] = Field(default_factory=list)

    @model_validator(mode="after")
    def _differ(self) -> Self:
        for field in ("name", "path"):
            if (twice := _twice([getattr(each, field) for each in self.training_sets])) is not None:
                message = (
                    f"`training_sets` has two sets of the {field} `{twice}`. Change one of them."
                )
                raise ValueError(message)
        return self

    def check(self, pipeline: Pipeline) -> None:
        """Refuse a set that would be written over the pipeline's own table.

        Raises:
            ValueError: The ``path`` of a set is ``sink.path``.
        """
        for each in self.training_sets:
            if each.path == pipeline.sink.path:
                message = (
                    f"training set `{each.name}`: `path` is that of the pipeline's table. Name "
                    "another folder."
                )
                raise ValueError(message)

    def located(self, locate: Callable[[str], str]) -> Self:
        """Return the section with absolute paths.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        sets = [_located(each, locate) for each in self.training_sets]
        return self.model_copy(update={"training_sets": sets})


def _located(each: DeclaredSet, locate: Callable[[str], str]) -> DeclaredSet:
    tables = [
        table.model_copy(
            update={
                field: locate(path)
                for field in ("pipeline", "path")
                if (path := getattr(table, field)) is not None
            }
        )
        for table in each.tables
    ]
    labels = each.labels.model_copy(update={"path": locate(each.labels.path)})
    return each.model_copy(update={"labels": labels, "tables": tables, "path": locate(each.path)})


def _twice(names: Sequence[str]) -> str | None:
    return next((each for each in names if names.count(each) > 1), None)
