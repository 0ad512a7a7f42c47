"""Followers of a pipeline's table: which there are, and whether a range of it can follow there."""

from __future__ import annotations

from collections.abc import Sequence

from hybrid_extensions.ranges.followed.follow import follows_a_table, require_followable
from orchestration.remedies import Remedy
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import HybridError, InputError, StateError
from sources.files.tables.replaced_range import ReplacedRange

_FILES = ("*.yaml", "*.yml")


def followers_of(loaded: LoadedPipeline) -> list[LoadedPipeline]:
    """Return the pipelines that follow a pipeline's table and whose files are in its file's folder.

    A file that declares no valid pipeline is left out: its runs would be refused as well.

    Args:
        loaded: The pipeline.
    """
    files = sorted(path for pattern in _FILES for path in loaded.folder.glob(pattern))
    found = []
    for path in files:
        try:
            other = load_pipeline(path)
        except (InputError, StateError):
            continue
        source = other.pipeline.growing_folder
        if follows_a_table(other) and source and loaded.target.url in source.patterns:
            found.append(other)
    return found


def require_followers(
    followers: Sequence[LoadedPipeline], loaded: LoadedPipeline, replaced: ReplacedRange
) -> None:
    """Refuse a range of a table that one of its followers can't follow; nothing is written.

    Those that follow a follower are asked, too, about what will be replaced there.

    Args:
        followers: The pipelines that follow the table.
        loaded: The pipeline whose table it is.
        replaced: The range.

    Raises:
        StateError: A follower can't follow the range; names the first such one, and what to do.
            Those after it are not asked.
        UnavailableError: A store does not answer.
    """
    for each in followers:
        try:
            made = require_followable(each, replaced)
        except StateError as error:
            message = (
                f"The range is not recomputed: pipeline `{each.pipeline.name}`, {each.path}, "
                f"follows the table of `{loaded.pipeline.name}`, and could not follow. "
                f"{error.message}"
            )
            hint = (
                "Choose a range that it can follow. On the command line `--regardless` recomputes "
                f"this one all the same; then `{each.pipeline.name}` waits before that commit "
                f"until its whole table is computed again: "
                f"{Remedy('rerun').command(str(each.path))}."
            )
            raise StateError(message, hint, pipeline=each.pipeline.name) from None
        except HybridError as error:
            error.hint = f"{error.hint} This came from the follower {each.path}.".strip()
            raise
        if made is not None:
            require_followers(followers_of(each), each, made)


def what_follows(followers: Sequence[LoadedPipeline]) -> str:
    """Return a sentence for each follower with the command by which it follows; "" without one.

    Args:
        followers: The pipelines that follow the table.
    """
    return " ".join(
        f"Pipeline `{each.pipeline.name}` follows this table, and waits before this commit: "
        f"{Remedy('follow').command(str(each.path))}."
        for each in followers
    )
