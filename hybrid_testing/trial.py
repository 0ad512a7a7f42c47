"""Trial of a transform: a pipeline over a few rows, each part a source with one micro-batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hybrid_testing.chain import read_bounded
from hybrid_testing.rows import ONE, Inputs
from hybrid_testing.under_test import REFERENCE, Transform, testing
from sources.common.schema import names_and_types
from sources.config.loader import LoadedPipeline, declare
from sources.errors import HybridError
from sources.extensions import contributions, none_adds
from sources.planning.transform_analysis import AnalysisRequest
from sources.storage.folder import Folder
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.inside.readers.empty_stream import empty_stream


class TrialError(Exception):
    """Error of a trial that a transform makes fail; its text is that of the run's error."""


@dataclass(frozen=True)
class Trial:
    """A transform, and what of a pipeline's declaration decides what becomes of its rows.

    Attributes:
        spark: The session.
        transform: The transform.
        event_time: Event-time column of the input.
        sink: Fields of ``sink``, without its path.
    """

    spark: SparkSession
    transform: Transform
    event_time: str
    sink: dict[str, Any]

    def returned(self, inputs: Inputs, folder: Path) -> list[str]:
        """Return the names of the columns that the transform returns; empty if it fails.

        Args:
            inputs: Rows whose columns the transform gets.
            folder: Empty folder.
        """
        try:
            given = {
                name: empty_stream(self.spark, Folder(folder), rows.schema)
                for name, rows in inputs.items()
            }
            made = self.transform(given[ONE]) if ONE in given else self.transform(**given)
            return made.columns
        # The transform is the user's code, which may raise anything: the analysis says what.
        except Exception:
            return []

    def require_stream(self, inputs: Inputs, folder: Path) -> None:
        """Refuse a transform that can't be applied to a stream, as the plan of a pipeline does.

        Args:
            inputs: Rows whose columns the transform gets.
            folder: Empty folder.

        Raises:
            InputError: ``event_time`` or a field of ``sink`` is not valid, or no installed
                extension analyzes transforms.
            StateError: The file of the pipeline can't be written to ``folder``.
            TrialError: The transform fails, does what Spark can't do with a stream, or lacks a
                column that the sink names.
        """
        loaded = self._declared(folder, [inputs])
        columns = {name: names_and_types(rows.schema) for name, rows in inputs.items()}
        request = AnalysisRequest(
            pipeline=loaded.path,
            columns=next(iter(columns.values())),
            inputs={} if ONE in columns else columns,
            replayed=[],
            digest="",
        )
        if (analyze := next(contributions("transform_analysis"), None)) is None:
            raise none_adds("analyzes transforms", "test the transform in a run of a pipeline")
        with self._as_in_a_run():
            made = analyze(self.spark, loaded, request, Folder(folder))
        if made.columns is None:
            raise TrialError(made.warning)

    def table(self, parts: Sequence[Inputs], folder: Path) -> Folder:
        """Return the target of a pipeline that reads parts one after the other.

        Each part is a source of its own with one micro-batch, for which the query is started again
        on the same checkpoint: as at the switch to the next source, and at any restart. Parts of
        several inputs are read together, from those on that have a row. Blocks until all parts are
        read.

        Args:
            parts: The rows, at least one in each part.
            folder: Empty folder for the pipeline's files, state and target.

        Raises:
            InputError: ``event_time`` or a field of ``sink`` is not valid.
            StateError: The file of the pipeline can't be written to ``folder``.
            TrialError: A run failed.
        """
        for number, part in enumerate(parts):
            for name, rows in part.items():
                source = folder / _name(number, name)
                source.mkdir()
                pq.write_table(rows, source / "rows.parquet")
        loaded = self._declared(folder, parts)
        with self._as_in_a_run():
            read_bounded(self.spark, loaded)
        return loaded.target

    @property
    def name(self) -> str:
        """Name of the transform, for messages.

        ``transform`` for one without a name, such as a partial function.
        """
        return getattr(self.transform, "__name__", "transform")

    @contextmanager
    def _as_in_a_run(self) -> Iterator[None]:
        """Make the transform that of a pipeline; turn what makes a run fail into one error."""
        path = list(sys.path)
        try:
            with testing(self.transform):
                yield
        except HybridError as error:
            message = error.message.replace(f"`transform: {REFERENCE}`", f"`{self.name}`")
            raise TrialError(message) from error
        except PySparkException as error:
            raise TrialError(report_of(error).message) from error
        finally:
            # The import of a pipeline's functions puts its folder there.
            sys.path[:] = path

    def _declared(self, folder: Path, parts: Sequence[Inputs]) -> LoadedPipeline:
        chains = {
            name: [
                {
                    "name": _name(number, name),
                    "type": "files",
                    "path": f"{_name(number, name)}/*.parquet",
                    "format": "parquet",
                }
                for number, part in enumerate(parts)
                if part[name].num_rows
            ]
            for name in parts[0]
        }
        inputs: dict[str, dict[str, Any]] = {
            name: {"sources": each} for name, each in chains.items()
        }
        document: dict[str, Any] = {
            "name": "trial",
            **inputs.get(ONE, {"inputs": inputs}),
            "event_time": self.event_time,
            "transform": REFERENCE,
            "sink": {**self.sink, "path": "table"},
            "state": "state",
        }
        return declare(folder / "trial.yaml", document)


def _name(number: int, name: str) -> str:
    return f"part_{number + 1}{name and '_'}{name}"
