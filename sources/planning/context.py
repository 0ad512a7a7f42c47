"""A pipeline and its state, resolved once and passed on to whatever needs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sources.common.state import Generation
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.hybrid import SwitchState
from sources.planning.plan import Plan, require_plan


@dataclass(frozen=True)
class PipelineContext:
    """A pipeline, one of its generations, and what is kept of it.

    Attributes:
        loaded: The declaration, and where it lies.
        generation: The state that everything is read from and written to.
    """

    loaded: LoadedPipeline
    generation: Generation

    @classmethod
    def require(cls, loaded: LoadedPipeline) -> PipelineContext:
        """Return the context of the generation that the declaration is about.

        Raises:
            StateError: Nothing was planned yet, or the declaration changed in a way that the
                checkpoint can't follow.
        """
        return cls(loaded, loaded.require_generation())

    @classmethod
    def find(cls, loaded: LoadedPipeline) -> PipelineContext | None:
        """Return the same, or None if nothing was planned yet.

        Raises:
            StateError: The declaration changed in a way that the checkpoint can't follow.
        """
        generation = loaded.open_generation(create=False)
        return None if generation is None else cls(loaded, generation)

    @property
    def pipeline(self) -> Pipeline:
        """The declaration itself."""
        return self.loaded.pipeline

    @cached_property
    def switch_state(self) -> SwitchState:
        """End and start position of each source, as far as they are decided."""
        return SwitchState(self.pipeline.hybrid_source(), self.generation)

    @cached_property
    def plan(self) -> Plan:
        """The plan of the generation, which never changes once it is written.

        Raises:
            StateError: None was made.
        """
        return require_plan(self.generation)
