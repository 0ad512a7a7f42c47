"""Note at the last audit that rows of the table were replaced since, other than by its runs."""

from __future__ import annotations

from orchestration.comparison.kept_audit import AUDIT, read_audit
from orchestration.display import moment
from sources.common.times import now_ms
from sources.state.generation import Generation


def overtake_audit(generation: Generation, what: str) -> None:
    """Note at a generation's last audit, if there is one, that rows were replaced since.

    Args:
        generation: The generation.
        what: What has replaced them, such as ``a repair``.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    if (kept := read_audit(generation)) is not None:
        since = f"{what} ({moment(now_ms())} UTC)"
        generation.replace(AUDIT, kept.model_copy(update={"overtaken": since}))
