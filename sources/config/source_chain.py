"""Chain of a pipeline's sources: which comes next, which one run reads together, of which kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from sources.common.fields import Declared, Name
from sources.config.inputs import Input
from sources.config.source.exported_source import ExportedFiles
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.source_kinds import AnySource, SourceSpec
from sources.decoding.changes.added_columns import AddedColumn
from sources.errors import InputError
from sources.hybrid import Boundedness, HybridSource, HybridSourceBuilder

S = TypeVar("S", bound=FileSource | KafkaSource)


class SourceChain(Declared):
    """Sources of a pipeline, and what they say of the table that the last one captures.

    Attributes:
        name: Name of the pipeline and of its asset group in Dagster: lower case letters, digits
            and underscores.
        sources: Sources in reading order. All but the last one are bounded (FLIP-150). With
            ``inputs``, the sources of all inputs, one input after the other.
        inputs: In place of ``sources``: several inputs by name, each with a chain of its own. The
            transform gets a DataFrame, or a view, of each name. Order matters: the transform has to
            read them in the order in which they are declared.
    """

    name: Name
    # Before `sources`, whose validation looks at it.
    inputs: dict[Name, Input] = Field(default_factory=dict)
    sources: list[SourceSpec] = Field(default_factory=list, validate_default=True)

    @field_validator("sources", mode="before")
    @classmethod
    def _are_needed(cls, given: Any, info: ValidationInfo) -> Any:
        if given == [] and info.data.get("inputs") == {}:
            raise PydanticCustomError("missing", "Field required")
        return given

    @model_validator(mode="after")
    def _sources_of_inputs(self) -> SourceChain:
        if not self.inputs:
            return self
        if self.sources:
            message = (
                "`sources` and `inputs` are both declared. Declare `sources` for one chain, or "
                "`inputs` for several, each with its own `sources`."
            )
            raise ValueError(message)
        # All else sees one list; the model is immutable only from here on.
        object.__setattr__(self, "sources", [s for i in self.inputs.values() for s in i.sources])
        return self

    def require_one_chain(self, what: str) -> None:
        """Refuse what needs one chain of sources, for a pipeline with several inputs.

        Args:
            what: What needs it, as the subject of a sentence.

        Raises:
            InputError: The pipeline declares ``inputs``.
        """
        if self.inputs:
            message = (
                f"{what} can't be done yet for pipeline `{self.name}`, which declares `inputs`: it "
                "needs one chain of `sources`. Nothing was read or written."
            )
            hint = "Compute the whole table: `hybrid run P`, or `hybrid rerun P` if it has run."
            raise InputError(message, hint, pipeline=self.name, field="inputs")

    def hybrid_source(self) -> HybridSource[AnySource]:
        """Build the chain of the declared sources, which checks their names and their order.

        Of several inputs it has the first source of each, then the second one of each, and so on;
        topics without an end come last, which one run follows together.

        Raises:
            InputError: It is empty, two sources share a name, or one before the last has no end.
        """
        every: list[AnySource] = []
        for chain in self.chains:
            builder: HybridSourceBuilder[AnySource] = HybridSource.builder()
            for source in chain:
                builder.add_source(source)
            every += builder.build().sources
        if self.inputs:
            positions = {s.name: number for chain in self.chains for number, s in enumerate(chain)}
            every.sort(key=lambda s: (s.boundedness is not Boundedness.BOUNDED, positions[s.name]))
        return HybridSource(tuple(every))

    @property
    def chains(self) -> list[list[AnySource]]:
        """The sources of each input, in reading order; without ``inputs`` one chain with all."""
        if not self.inputs:
            return [self.sources]
        return [[s for s in self.sources if self.input_of(s.name) == name] for name in self.inputs]

    def place_of(self, name: str) -> int:
        """Return the fixed place of a source in the query, from 0: that in ``sources``.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        return self.sources.index(self.source(name))

    def input_of(self, name: str) -> str | None:
        """Return the name of the input that a source belongs to.

        None without ``inputs``, or if no source has this name.
        """
        found = self.inputs.items()
        return next((i for i, each in found if name in [s.name for s in each.sources]), None)

    @property
    def followed(self) -> list[AnySource]:
        """The sources that the live run reads together, in their places; empty if all are bounded.

        One at most without ``inputs``, else one of each.
        """
        return [s for s in self.sources if s.boundedness is not Boundedness.BOUNDED]

    def source(self, name: str) -> AnySource:
        """Return the source of this name.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        chain = self.hybrid_source()
        return chain.sources[chain.index(name)]

    def chain_of(self, name: str) -> list[AnySource]:
        """Return the sources of the input that a source belongs to; all without ``inputs``.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        source = self.source(name)
        return next(chain for chain in self.chains if source in chain)

    def turn_of(self, name: str) -> list[AnySource]:
        """Return the sources that one run reads together with a source, in their places.

        That source alone; of several inputs the sources of all inputs that have the same position
        in their chains, or the topics of all inputs.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        source = self.source(name)
        if not self.inputs:
            return [source]
        if source in self.followed:
            return self.followed
        position = self.chain_of(name).index(source)
        found = [chain[position] for chain in self.chains if position < len(chain)]
        return [each for each in found if each not in self.followed]

    def run_of(self, name: str) -> str:
        """Return the name of the source by which the run is named that reads a source.

        Its own; of several inputs, whose sources a run reads together, that of the last input.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        return self.turn_of(name)[-1].name

    def source_after(self, name: str) -> AnySource | None:
        """Return the source right after the source of this name; None after the last one.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        chain = self.chain_of(name)
        following = chain.index(self.source(name)) + 1
        return chain[following] if following < len(chain) else None

    def source_before(self, name: str) -> AnySource:
        """Return the source right before the source of this name.

        Do not call it for the first source, which has none before it: the result is then the last
        one.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        chain = self.chain_of(name)
        return chain[chain.index(self.source(name)) - 1]

    @property
    def file_sources(self) -> list[FileSource]:
        """All file sources in reading order; empty if there are none."""
        return [source for source in self.sources if isinstance(source, FileSource)]

    @property
    def captures_tables(self) -> bool:
        """Whether a source is the snapshot of a database table."""
        return any(source.snapshot is not None for source in self.file_sources)

    @property
    def exported_sources(self) -> list[ExportedFiles]:
        """Sources of kinds that extensions add, in reading order; empty if there are none."""
        return [source for source in self.sources if isinstance(source, ExportedFiles)]

    @property
    def bounded_files(self) -> list[FileSource]:
        """File sources without ``discovery_interval``, which have an end; in reading order.

        Empty if there are none.
        """
        return [each for each in self.file_sources if each.boundedness is Boundedness.BOUNDED]

    @property
    def growing_folder(self) -> FileSource | None:
        """The last source if it is a folder that is read without end; else None."""
        last = self.sources[-1]
        is_growing = last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        return last if is_growing and isinstance(last, FileSource) else None

    @property
    def topics(self) -> list[KafkaSource]:
        """All Kafka sources in reading order; empty if there are none."""
        return [source for source in self.sources if isinstance(source, KafkaSource)]

    def file_source(self, name: str) -> FileSource:
        """Return the file source of this name.

        Raises:
            InputError: No source has this name, or it reads no files.
        """
        return self._of_kind(FileSource, name, "reads topics, no files", "`type: files`")

    def exported_source(self, name: str) -> ExportedFiles:
        """Return the exported source of this name.

        Raises:
            InputError: No source has this name, or it is not of an extension's kind.
        """
        found = f"is of `type: {self.source(name).type}`, which is not exported"
        return self._of_kind(ExportedFiles, name, found, "an extension's kind")

    def topic_source(self, name: str) -> KafkaSource:
        """Return the Kafka source of this name.

        Raises:
            InputError: No source has this name, or it reads no topic.
        """
        return self._of_kind(KafkaSource, name, "reads files, no topic", "`type: kafka`")

    def _of_kind(self, kind: type[S], name: str, otherwise: str, wanted: str) -> S:
        """Return the source of this name; refuse one of another kind, saying what it is."""
        found = self.source(name)
        if isinstance(found, kind):
            return found
        names = ", ".join(each.name for each in self.sources if isinstance(each, kind)) or "none"
        message = f"Source `{name}` {otherwise}."
        hint = f"Name a source of {wanted}; pipeline `{self.name}` has {names}."
        raise InputError(message, hint, pipeline=self.name, source=name)

    def topic_after(self, name: str) -> KafkaSource | None:
        """Return the first Kafka source after the source of this name; None if there is none.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        chain = self.chain_of(name)
        later = chain[chain.index(self.source(name)) + 1 :]
        return next((source for source in later if isinstance(source, KafkaSource)), None)

    @property
    def shards(self) -> dict[str, FileSource]:
        """Sources with the snapshot of a shard, by the topic of its changes; empty if none is.

        Shards are databases that hold the same table; their log positions can't be compared.
        """
        return {
            source.snapshot.topic: source
            for source in self.file_sources
            if source.snapshot is not None and source.snapshot.topic is not None
        }

    def changes_after(self, name: str) -> KafkaSource | None:
        """Return the topic of changes that continue a snapshot: of several, that of its shard.

        None if no topic follows.

        Args:
            name: Name of the source with the snapshot.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        source, topic = self.source(name), self.topic_after(name)
        shard = None if source.snapshot is None else source.snapshot.topic
        if topic is None or shard is None:
            return topic
        return topic.model_copy(update={"topic": shard})

    def next_topic(self, name: str) -> KafkaSource | None:
        """Return the source right after the source of this name if it reads topics; else None.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        after = self.source_after(name)
        return after if isinstance(after, KafkaSource) else None

    @property
    def added_columns(self) -> dict[str, AddedColumn]:
        """Columns that were added to the captured table after the generation began, by name.

        As declared for the last source (``added_columns``); empty if it is no captured table.
        """
        changes = self.sources[-1].changes
        return {} if changes is None else changes.added_columns

    @property
    def follows_truncates(self) -> bool:
        """Whether a TRUNCATE of the captured table removes the target's older rows, as declared."""
        return any(topic.changes and topic.changes.follows_truncates for topic in self.topics)

    @property
    def widened_columns(self) -> dict[str, str]:
        """Wider types that the last source's database table has given columns, by name; or empty.

        Spark SQL types, as declared for it (``widened_columns``).
        """
        changes = self.sources[-1].changes
        return {} if changes is None else changes.widened_columns

    def current(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Return the columns that rows have now: with added columns and widened types.

        As they are given, if the last source is no captured table.

        Args:
            columns: Names and Spark SQL types of the columns when the generation began.
        """
        changes = self.sources[-1].changes
        return dict(columns) if changes is None else changes.current(columns)

    @property
    def changes_target(self) -> bool:
        """Whether columns of the target are changed when the captured table's are, as declared."""
        return any(topic.changes and topic.changes.policies.changes_target for topic in self.topics)

    @property
    def emptied_columns(self) -> list[str]:
        """Columns that the last source's table no longer has, null in all rows; or empty."""
        changes = self.sources[-1].changes
        return [] if changes is None else changes.emptied_columns

    @property
    def ignored_columns(self) -> list[str]:
        """Columns of the last source's database table that are left out, as declared; or empty."""
        changes = self.sources[-1].changes
        return [] if changes is None else changes.ignored_columns
