"""Source that is another pipeline's table: a version, or appends; no circle, no followed merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, NonNegativeInt, PrivateAttr, ValidationError

from sources.common.durations import Duration
from sources.common.fields import Columns
from sources.config.source.added_source import COMMON, AddedSource
from sources.config.source.file_source import FileSource
from sources.errors import HybridError, InputError
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import has_log

if TYPE_CHECKING:
    from sources.config.loader import LoadedPipeline


class CircleError(InputError):
    """Error of pipelines that read each other's tables in a circle."""


_loading: ContextVar[tuple[Path, ...]] = ContextVar("upstream pipelines that are being loaded")


class UpstreamTable(AddedSource):
    """The table of another pipeline, as its readers see it: of the generation that serves.

    Attributes:
        type: Always ``table``.
        pipeline: File of the other pipeline, relative to this one's.
        generation: Generation of the other pipeline whose table is read, such as a candidate,
            ``g2``, to be promoted together with this pipeline's; by default the one that serves.
        version: Version of its table to read; by default the newest one at planning time.
        columns: Columns of the table to read, with their Spark SQL types; by default all.
        discovery_interval: Time between two looks for commits that append rows to the table, which
            is then read without end. Without it, one version is read.
    """

    type: Literal["table"]
    pipeline: str
    generation: str | None = Field(default=None, pattern=r"^g[1-9]\d*$")
    version: NonNegativeInt | None = None
    columns: Columns | None = Field(default=None, alias="schema")
    discovery_interval: Duration | None = None

    def as_files(self) -> UpstreamFiles:
        """Return the file source that reads the table; its place is known once it is located.

        Raises:
            ValueError: The declared fields contradict each other.
        """
        own = {
            "pipeline",
            "generation",
            "version",
            "columns",
            "discovery_interval",
        } & self.model_fields_set
        names = {*COMMON} & self.model_fields_set | own
        given = {name: getattr(self, name) for name in names}
        try:
            return UpstreamFiles.model_validate({**given, "type": "files", "format": "delta"})
        except ValidationError as error:
            texts = [each["msg"].removeprefix("Value error, ") for each in error.errors()]
            raise ValueError(" ".join(texts)) from None


class UpstreamFiles(FileSource):
    """File source that reads the Delta table of another pipeline.

    Attributes:
        pipeline: File of the other pipeline, as declared.
        generation: Generation whose table is read; None for the one that serves.
    """

    pipeline: str
    generation: str | None = None
    _upstream: LoadedPipeline | None = PrivateAttr(default=None)
    _error: HybridError | None = PrivateAttr(default=None)

    @property
    def shown_place(self) -> str:
        """The other pipeline's table, for display."""
        of = "" if self.generation is None else f", {self.generation}"
        return f"table of {self.pipeline}{of}"

    @property
    def reads_candidate(self) -> bool:
        """Whether the table is one that readers of the other pipeline do not see yet.

        False if the other pipeline can't be loaded.
        """
        upstream = self._upstream
        return upstream is not None and self.patterns != [upstream.target.url]

    @property
    def is_placed_by_plan(self) -> bool:
        """True: runs go by the place that the plan has, and need not know the other pipeline."""
        return True

    @property
    def upstream(self) -> LoadedPipeline | None:
        """The other pipeline, as its file declares it now; None if it can't be loaded."""
        return self._upstream

    def located(
        self, locate: Callable[[str], str], absolute_url: Callable[[str], str]
    ) -> FileSource:
        """Return a copy with the place of the other pipeline's table.

        If its file can't be loaded, the place stays unknown: only the plan needs it.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
            absolute_url: Adds the namenode to ``hdfs:///…``; leaves other paths as they are.
        """
        found: dict[str, Any] = {}
        error: HybridError | None = None
        upstream: LoadedPipeline | None = None
        try:
            upstream = _load(Path(locate(self.pipeline)))
            found["path"] = absolute_url(_table(upstream, self.generation).url)
            if self.asset is None:
                found["asset"] = f"{upstream.pipeline.name}/table"
        except HybridError as caught:
            error = caught
        copy = self.model_copy(update={**self.quarantine_located(locate), **found})
        copy._upstream, copy._error = upstream, error
        return copy

    def require_no_circle(self) -> None:
        """Refuse a source that follows, by the tables of others, its own pipeline's.

        Raises:
            CircleError: Names the pipelines.
        """
        if isinstance(self._error, CircleError):
            raise self._error

    def require_place(self) -> None:
        """Refuse an upstream pipeline that can't be loaded, has no table yet, or merges its rows.

        Raises:
            InputError: Says which, and what to do.
            StateError: The state of the upstream pipeline is damaged.
            UnavailableError: A store does not answer.
        """
        if self._error is not None and not self.patterns:
            message = (
                f"Source `{self.name}` reads the table of {self.pipeline}, which can't be loaded: "
                f"{self._error.message}"
            )
            raise InputError(message, self._error.hint, source=self.name, file=self.pipeline)
        if (upstream := self._upstream) is None:
            return
        name = upstream.pipeline.name
        if self.discovery_interval is not None and upstream.pipeline.sink.mode == "merge":
            message = (
                f"Source `{self.name}` follows the table of pipeline `{name}`, whose sink has "
                "`mode: merge`: its commits rewrite rows, and only appended ones can be followed."
            )
            hint = (
                "Remove `discovery_interval` to read one version of the table, which `hybrid rerun "
                "P` brings up to date; or read the sources of that pipeline here."
            )
            raise InputError(message, hint, source=self.name, field="discovery_interval")
        table = _table(upstream, self.generation)
        if not has_log(table):
            message = (
                f"Source `{self.name}` reads the table of pipeline `{name}`, which is not there "
                f"yet: {table.url}."
            )
            hint = f"Run that pipeline first, whose file is {self.pipeline}; then plan this one."
            raise InputError(message, hint, source=self.name, table=table.url)

    def contract(self) -> dict[str, object]:
        """Return the declared values that may not change while a checkpoint is in use.

        The other pipeline's file stands for the place, which the plan has.
        """
        place = f"sources.{self.name}"
        return {**super().contract(), place: ["table", self.pipeline, self.columns]}

    def _check_place(self) -> None:
        """Accept the declaration without a place: that of the other pipeline counts."""


def _table(upstream: LoadedPipeline, generation: str | None) -> Folder:
    """Return the table of a generation of an upstream pipeline; of the serving one for None."""
    # As the loader, which needs the kinds of sources.
    from sources.serving import target_of  # noqa: PLC0415

    return upstream.target if generation is None else target_of(upstream, generation)


SOURCES: Mapping[str, type[AddedSource]] = {"table": UpstreamTable}
"""The kinds of sources that this extension adds."""


@contextmanager
def _being_loaded(path: Path) -> Iterator[None]:
    """Refuse a pipeline that is among those that are loaded as its own upstream."""
    before = _loading.get(())
    if path in before:
        circle = " → ".join(each.name for each in [*before[before.index(path) :], path])
        message = f"Pipelines read each other's tables in a circle: {circle}."
        hint = "Let one of them read what it has from elsewhere: rows would be read without end."
        raise CircleError(message, hint, file=str(path))
    token = _loading.set((*before, path))
    try:
        yield
    finally:
        _loading.reset(token)


def _load(path: Path) -> LoadedPipeline:
    """Load an upstream pipeline, and refuse one that reads itself.

    Raises:
        InputError: It can't be loaded, or pipelines read each other's tables in a circle.
        StateError: It is a kept copy whose note is damaged.
    """
    # The loader needs the kinds of sources, this one included.
    from sources.config.loader import load_pipeline  # noqa: PLC0415

    with _being_loaded(path):
        loaded = load_pipeline(path)
    for source in loaded.pipeline.file_sources:
        if isinstance(source, UpstreamFiles):
            source.require_no_circle()
    return loaded
