"""Compatibility of a changed transform with a checkpoint: what may resume, what is refused.

Spark compares the names and types of what its stateful operators keep, and no more: another window
length, key or aggregate of the same type silently resumes with state that means something else
(tried on Spark 4.2.1). So the content of each operator's state is recorded, and compared before the
query is started. What Spark refuses by itself, it refuses before it writes a batch.
"""

from __future__ import annotations

from itertools import pairwise, zip_longest

from sources.common.state_document import Record
from sources.errors import StateError
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log

_WAY_OUT = (
    "Undo the change of the transform and run the pipeline again (`hybrid run P`), or begin a new "
    "generation (`hybrid generation new P`), which reads all of history again into a table of its "
    "own next to the one that serves."
)
# Conditions of Spark's error-conditions.json for state that a different query has left.
_REFUSALS = {
    "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
}
_NONE = "nothing"


class Transform(Record):
    """State document of a transform that began to use a generation's checkpoint.

    A generation is one computation of the whole table, with its own checkpoint.

    Attributes:
        name: ``module:function``, or the file of a query.
        first_batch: Number of the first micro-batch that this transform computes.
        reached: How far the sources were read before that micro-batch, in words.
        code: Digest of its module's code, or of the query.
        plan: Digest of its analyzed query plan.
        operators: What each of its stateful operators keeps, and each watermark, in words.
        spark: Version of the Spark that described them.
    """

    name: str
    first_batch: int
    reached: str
    code: str
    plan: str
    operators: list[str]
    spark: str

    def is_like(self, other: Transform) -> bool:
        """Return whether another transform computes the same rows, as far as can be known.

        Compared are name, digests of code and query plan, and the version of Spark.
        """
        return self._what() == other._what()

    def _what(self) -> tuple[object, ...]:
        return self.name, self.code, self.plan, self.spark


def read_transforms(generation: Generation) -> list[Transform]:
    """Return all transforms that used a generation's checkpoint, first to last.

    Read from the state folder; empty before the first query was built. The last transform may not
    have committed a micro-batch yet.

    Raises:
        StateError: A document is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    numbers = sorted(
        int(number)
        for name in generation.names("transforms/*.json")
        if (number := name.removeprefix("transforms/").removesuffix(".json")).isdigit()
    )
    found = (generation.read(_name(number), Transform) for number in numbers)
    return [each for each in found if each is not None]


def record_transform(generation: Generation, found: Transform) -> str | None:
    """Check that a transform may resume from a checkpoint, and record it in the state folder.

    Call it before the query is started. The comparison with the transform before is skipped if
    another version of Spark recorded that one, since it describes operators in other words.

    Args:
        generation: Whose checkpoint it is.
        found: The transform that will compute the next micro-batch.

    Returns:
        A warning if the transform differs from the one before, else None.

    Raises:
        StateError: A stateful operator would resume with state that means something else, such as
            sums over windows of another length; a newer Spark wrote the checkpoint; or a document
            is damaged, or can't be written.
        UnavailableError: The state's store does not answer.
    """
    known = read_transforms(generation)
    before = next((each for each in reversed(known) if each.first_batch < found.first_batch), None)
    if before is not None:
        _require_no_older_spark(before, found)
    # Of the same plan, an older version of this project may have said other words.
    if before is not None and before.spark == found.spark and before.plan != found.plan:
        _require_same_operators(before, found)
    # A transform that has committed no micro-batch is replaced.
    last = known[-1] if known else None
    if last is not None and last.first_batch < found.first_batch and found.is_like(last):
        return None
    generation.replace(_name(found.first_batch), found)
    return None if last is not None and found.is_like(last) else last_change(generation)


def last_change(generation: Generation) -> str | None:
    """Describe the last change of a generation's transform as a warning; None without a change.

    It names the first micro-batch of the new transform, and where the old one's rows end.

    Raises:
        StateError: A document of a transform is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    pairs = pairwise(read_transforms(generation))
    changes = [(before, now) for before, now in pairs if not now.is_like(before)]
    if not changes:
        return None
    before, now = changes[-1]
    what = "transform" if before.spark == now.spark else f"transform, or Spark ({now.spark}),"
    return (
        f"The {what} changed: micro-batches before {now.first_batch} ({now.reached}) were computed "
        "by the old one and stay as they are. To compute the whole table by the new one, begin a "
        "new generation: `hybrid generation new P`."
    )


def first_batch(generation: Generation) -> int:
    """Return the number of the micro-batch after the last committed one; 0 for a new checkpoint.

    Raises:
        UnavailableError: The checkpoint's store does not answer.
    """
    committed = offset_log.last_committed(generation.checkpoint)
    return 0 if committed is None else committed + 1


def state_refusal(condition: str | None, reason: str) -> StateError | None:
    """Turn a failure of Spark into the refusal of a transform that does not fit the checkpoint.

    Args:
        condition: Spark's error condition without its sub-condition; None if there is none.
        reason: Spark's message.

    Returns:
        An error for the caller to report or raise, if the condition says that a different query has
        left the state in the checkpoint; None for any other failure.
    """
    if condition not in _REFUSALS:
        return None
    message = (
        "The query does not fit the state that earlier micro-batches left in the checkpoint; "
        f"nothing was written. Spark reports: {reason}"
    )
    hint = "Restore the checkpoint's folder `state` if files of it are gone, or undo a change of "
    return StateError(message, f"{hint}`spark.conf`. Otherwise: {_WAY_OUT}", field="transform")


def _require_no_older_spark(before: Transform, found: Transform) -> None:
    """Refuse to resume a checkpoint with an older minor version of Spark than wrote it.

    Spark reads checkpoints of older versions only.
    """
    old, new = ([int(part) for part in each.spark.split(".")[:2]] for each in (before, found))
    if new >= old:
        return
    message = (
        f"The checkpoint was written by Spark {before.spark}, and this is Spark {found.spark}: an "
        "older Spark may misread it. Nothing was written."
    )
    hint = (
        f"Run the pipeline with Spark {old[0]}.{old[1]} or later again, or begin a new generation "
        "with this one (`hybrid generation new P`)."
    )
    raise StateError(message, hint, value=found.spark)


def _require_same_operators(before: Transform, found: Transform) -> None:
    pairs = zip_longest(before.operators, found.operators, fillvalue=_NONE)
    changed = [(old, new) for old, new in pairs if old != new]
    if not changed:
        return
    lines = [f"  it was: {old}\n  it is:  {new}" for old, new in changed]
    message = "\n".join(
        [
            f"`transform: {found.name}` keeps other state than what the micro-batches before "
            f"{found.first_batch} left in the checkpoint:",
            *lines,
            "Resuming would mix the two silently; nothing was written.",
        ]
    )
    raise StateError(message, _WAY_OUT, field="transform", value=found.name)


def _name(number: int) -> str:
    return f"transforms/{number}.json"
