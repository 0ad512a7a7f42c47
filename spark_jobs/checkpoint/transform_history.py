"""Which transforms have worked on a checkpoint, and whether another one may go on with it.

Spark compares names and types of what its stateful operators keep, and no more: another window
length, key or aggregate of the same type goes on silently with state that means something else
(tried on Spark 4.2.1). So what the operators keep is written down, and compared before the query
is started. What Spark refuses by itself, it refuses before it writes a batch.
"""

from __future__ import annotations

from itertools import pairwise, zip_longest

from sources.common.positions import Record
from sources.common.state import Generation
from sources.errors import StateError
from spark_jobs.checkpoint import offset_log

_WAY_OUT = (
    "Undo the change of the transform, or begin a new generation (`hybrid generation new`), for "
    "which all of history is read anew, into a table of its own."
)
# Of Spark's error-conditions.json: what it says of state that another query has left.
_REFUSALS = (
    "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
)
_NONE = "nothing"


class Transform(Record):
    """A transform that began to work on a generation's checkpoint.

    Attributes:
        name: ``module:function``.
        first_batch: The first micro-batch that it makes.
        reached: What was read before, in words.
        code: Digest of its module's code.
        plan: Digest of the plan that it makes.
        operators: What each stateful operator of it keeps, and each watermark, in words.
        spark: Version of the Spark that told them.
    """

    name: str
    first_batch: int
    reached: str
    code: str
    plan: str
    operators: list[str]
    spark: str

    def is_like(self, other: Transform) -> bool:
        """Whether both make the same rows of the same input, as far as can be told."""
        return self._what() == other._what()

    def _what(self) -> tuple[object, ...]:
        return self.name, self.code, self.plan, self.operators, self.spark


def read_transforms(generation: Generation) -> list[Transform]:
    """All transforms that worked on a checkpoint, first to last; the last may have made nothing."""
    numbers = sorted(
        int(path.stem)
        for path in generation.path("transforms").glob("*.json")
        if path.stem.isdigit()
    )
    found = (generation.read(_name(number), Transform) for number in numbers)
    return [each for each in found if each is not None]


def take_over(generation: Generation, found: Transform) -> str | None:
    """Let a transform go on with a checkpoint, and write it down.

    Args:
        generation: Whose checkpoint it is.
        found: The transform, as the next micro-batch will be made by it.

    Returns:
        What people are to be told if it is another one than before.

    Raises:
        StateError: A stateful operator would go on with what it did not keep itself.
    """
    known = read_transforms(generation)
    before = next((each for each in reversed(known) if each.first_batch < found.first_batch), None)
    if before is not None and before.spark == found.spark:
        _require_same_operators(before, found)
    # One that made no batch yet is forgotten.
    last = known[-1] if known else None
    if last is not None and last.first_batch < found.first_batch and found.is_like(last):
        return None
    generation.replace(_name(found.first_batch), found)
    return None if last is not None and found.is_like(last) else last_change(generation)


def last_change(generation: Generation) -> str | None:
    """What people are told of a transform that changed under the checkpoint; None if none did."""
    pairs = pairwise(read_transforms(generation))
    changes = [(before, now) for before, now in pairs if not now.is_like(before)]
    if not changes:
        return None
    before, now = changes[-1]
    what = "transform" if before.spark == now.spark else f"transform, or Spark ({now.spark}),"
    return (
        f"The {what} changed: micro-batches before {now.first_batch} ({now.reached}) were made by "
        "the old one, and stay as they are. For a table under the new one alone begin a new "
        "generation: `hybrid generation new`."
    )


def first_batch(generation: Generation) -> int:
    """The next micro-batch that will be committed."""
    committed = offset_log.last_committed(generation.checkpoint)
    return 0 if committed is None else committed + 1


def explain_refusal(text: str) -> str | None:
    """What people are told if Spark itself refuses the state; None if that is not what it says."""
    name = next((name for name in _REFUSALS if f"[{name}]" in text), None)
    if name is None:
        return None
    reason = text[text.index(f"[{name}]") :].strip()
    return (
        "The transform does not fit the state that is in the checkpoint; nothing was written. "
        f"{_WAY_OUT} Spark says: {reason}"
    )


def _require_same_operators(before: Transform, found: Transform) -> None:
    pairs = zip_longest(before.operators, found.operators, fillvalue=_NONE)
    changed = [(old, new) for old, new in pairs if old != new]
    if not changed:
        return
    lines = [f"  it was: {old}\n  it is:  {new}" for old, new in changed]
    message = "\n".join(
        [
            f"`transform: {found.name}` changed what Spark keeps for it in the checkpoint, of "
            f"micro-batches before {found.first_batch}:",
            *lines,
            "Going on would mix the two silently.",
        ]
    )
    raise StateError(message, _WAY_OUT)


def _name(number: int) -> str:
    return f"transforms/{number}.json"
