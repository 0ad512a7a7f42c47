"""Removal of what no rollback needs: generations with their state and files, after a switch."""

from __future__ import annotations

from contextlib import suppress

from hybrid_extensions.generations.declare import GenerationsSection
from hybrid_extensions.generations.files.unlisted_files import delete_unlisted
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.generations import generations, remove
from sources.serving import GENERATIONS, newest_generation, read_serving, write_serving


def clean(loaded: LoadedPipeline) -> tuple[list[str], int]:
    """Remove generations that no rollback needs, with their state and their files.

    Those are what served before, beyond the number to keep, and older ones that never served. Files
    that can't be deleted now are left, and raise nothing: the next promotion deletes them.

    Returns:
        Names of the removed generations, and how many files in ``_generations`` were deleted.

    Raises:
        InputError: A store refuses.
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    removed = _remove_surplus(loaded)
    versions = [each.version for each in read_serving(loaded).before]
    deleted = 0
    # The switch is done; what can't be deleted now is found again after the next one.
    with suppress(HybridError):
        deleted = delete_unlisted(loaded.target, loaded.target.folder(GENERATIONS), versions)
    return removed, deleted


def _remove_surplus(loaded: LoadedPipeline) -> list[str]:
    removed = []
    serving = read_serving(loaded)
    for name in (each.name for each in generations(loaded)):
        # Of a table that is gone: it serves no more, and can't be rolled back to.
        is_older = int(name[1:]) < int(serving.generation[1:])
        if is_older and serving.served(name) is None:
            remove(loaded, name)
            removed.append(name)
    surplus = len(serving.before) - loaded.section(GenerationsSection).generations.keep
    # The newest one belongs to the pipeline's own file, even after a rollback.
    gone = [each for each in serving.before if each.generation != newest_generation(loaded)][
        : max(surplus, 0)
    ]
    if not gone:
        return removed
    kept = [each for each in serving.before if each not in gone]
    if not write_serving(loaded, serving, serving.model_copy(update={"before": kept})):
        # Another process has changed what serves meanwhile, and cleans up after that.
        return removed
    for each in gone:
        remove(loaded, each.generation)
        removed.append(each.generation)
    return removed
