"""Context of a pipeline: its declaration and state, resolved once and passed on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.hybrid import SwitchState
from sources.planning.exports import with_exports
from sources.planning.files.table_places import with_planned_places
from sources.planning.plan import Plan, require_plan
from sources.planning.topics.followed_columns import with_followed_columns
from sources.state.generation import PLAN, Generation


@dataclass(frozen=True)
class PipelineContext:
    """A pipeline and one of its generations (computations of the whole table).

    Attributes:
        loaded: The pipeline's declaration, and where its file lies.
        generation: State folder of the generation: decisions are read from and written to it.
        input: Name of the input whose sources and key alone the pipeline has (:meth:`of_source`);
            None if it has all.

    Raises:
        StateError: What the state has for the declaration is damaged: plan, export or columns.
        UnavailableError: The state's store does not answer.
    """

    loaded: LoadedPipeline
    generation: Generation
    input: str | None = None

    def __post_init__(self) -> None:
        """Complete the declaration with values from the state.

        Tables that are declared by their names get the places that the plan has, exported sources
        those of their files, and the last source the columns that were followed.
        """
        loaded = with_planned_places(self.loaded, self.generation)
        loaded = with_exports(loaded, self.generation)
        object.__setattr__(self, "loaded", with_followed_columns(loaded, self.generation))

    @classmethod
    def require(cls, loaded: LoadedPipeline) -> PipelineContext:
        """Return the context of the declared generation, which must exist.

        That is the newest one, or for a kept copy of the declaration the one that it was copied
        for.

        Raises:
            InputError: The scheme of ``state`` is not supported, or its store refuses.
            StateError: Nothing was planned yet, or the declaration changed in a way that the
                checkpoint can't follow.
            UnavailableError: The state's store does not answer.
        """
        return cls(loaded, loaded.require_generation())

    @classmethod
    def find(cls, loaded: LoadedPipeline) -> PipelineContext | None:
        """Return the context of the declared generation; None if nothing was planned yet.

        That is the newest one, or for a kept copy of the declaration the one that it was copied
        for.

        Raises:
            InputError: The scheme of ``state`` is not supported, or its store refuses.
            StateError: The declaration changed in a way that the checkpoint can't follow.
            UnavailableError: The state's store does not answer.
        """
        generation = loaded.open_generation(create=False)
        return None if generation is None else cls(loaded, generation)

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline's declaration, completed with what the state knows; nothing is read."""
        return self.loaded.pipeline

    @cached_property
    def switch_state(self) -> SwitchState:
        """Access to the start and end positions of all sources in the generation's state."""
        return SwitchState(self.pipeline.hybrid_source(), self.generation)

    @property
    def is_planned(self) -> bool:
        """Whether the generation has a plan; read from the state at each access.

        Raises:
            UnavailableError: The state's store does not answer.
        """
        return self.generation.exists(PLAN)

    @cached_property
    def plan(self) -> Plan:
        """The plan of the generation, read from its state once: a plan never changes.

        Raises:
            StateError: The generation has no plan yet, or the plan is damaged.
            UnavailableError: The state's store does not answer.
        """
        plan = require_plan(self.generation)
        if self.input is None:
            return plan
        return plan.of_sources([source.name for source in self.pipeline.sources])

    def require_turn(self, name: str) -> None:
        """Refuse a source before all sources that are read before it have finished.

        Those of other inputs that the same run reads may be unread.

        Raises:
            StateError: An earlier source has not finished; names it.
            InputError: The pipeline has no source of this name.
            UnavailableError: The state's store does not answer.
        """
        self.switch_state.require_turn(self.pipeline.turn_of(name)[0].name)

    def of_source(self, name: str) -> PipelineContext:
        """Return the context as the input of a source sees it: with the sources of that input only.

        Plan, hand-over and seam of a chain are decided by it. This context without ``inputs``, and
        for a context that is an input's already.

        Args:
            name: Name of the source.

        Raises:
            InputError: The pipeline has no source of this name.
        """
        self.pipeline.source(name)
        own = self.pipeline.input_of(name)
        if own is None:
            return self
        return PipelineContext(self.loaded.by_input[own], self.generation, own)
