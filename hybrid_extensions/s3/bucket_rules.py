"""Lifecycle and versioning rules of a bucket that affect a pipeline's objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hybrid_extensions.s3.files import REFUSALS, connect, split
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings

_COLD = {"GLACIER", "DEEP_ARCHIVE"}
"""Storage classes whose objects can't be read at once."""


def bucket_warnings(settings: S3Settings, folder: Folder, field: str) -> list[str]:
    """Return warnings about the bucket of a folder that a pipeline writes to.

    Rules that this login may not read, or that the store does not know, are left out. Nothing is
    raised for them.

    Args:
        settings: Address of the store.
        folder: Folder in the object store where documents or a table are to be written.
        field: Field of the declaration that names it.

    Returns:
        Sentences: about lifecycle rules that would delete or archive objects of the folder, about
        a bucket that keeps old versions without an end, and about one that locks new objects. Empty
        if there is nothing to tell.
    """
    bucket, key = split(folder.url)
    client = connect(settings)
    rules = _asked(client.get_bucket_lifecycle_configuration, bucket).get("Rules", [])
    rules = [rule for rule in rules if rule.get("Status") == "Enabled" and _covers(rule, key)]
    warnings = list(_deletions(rules, folder, field))
    versioning = _asked(client.get_bucket_versioning, bucket).get("Status")
    is_tidied = any("NoncurrentVersionExpiration" in rule for rule in rules)
    if versioning == "Enabled" and not is_tidied:
        warnings.append(
            f"Bucket `{bucket}` of `{field}` keeps every version of an object. Small documents are "
            "written every 10 s, so old versions pile up without an end: add a lifecycle rule that "
            f"deletes noncurrent versions below `{key}/`."
        )
    lock = _asked(client.get_object_lock_configuration, bucket).get("ObjectLockConfiguration", {})
    if "DefaultRetention" in lock.get("Rule", {}):
        warnings.append(
            f"Bucket `{bucket}` of `{field}` locks new objects (object lock), so nothing that is "
            "deleted or written over is freed before its time: use a bucket without a default "
            "retention."
        )
    return warnings


def _asked(ask: Any, bucket: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = ask(Bucket=bucket)
    except REFUSALS:
        # None is set, the login may not read it, or the store has no such rules.
        return {}
    return found


def _deletions(rules: list[dict[str, Any]], folder: Folder, field: str) -> Iterator[str]:
    for rule in rules:
        name = f"The lifecycle rule `{rule.get('ID', '')}` of the bucket"
        if (when := rule.get("Expiration", {})) and ("Days" in when or "Date" in when):
            due = f"{when['Days']} days" if "Days" in when else f"the {when['Date']:%Y-%m-%d}"
            yield (
                f"{name} deletes objects of {folder} (`{field}`) after {due}: plan, checkpoint or "
                "table would lose files that are still needed. Exclude this prefix from the rule."
            )
        classes = {each.get("StorageClass") for each in rule.get("Transitions", [])}
        if cold := sorted(classes & _COLD):
            yield (
                f"{name} moves objects of {folder} (`{field}`) to {cold[0]}, where they can't be "
                "read at once: runs and readers would fail. Exclude this prefix from the rule."
            )


def _covers(rule: dict[str, Any], key: str) -> bool:
    """Return whether a rule is about objects below a key, at least about some of them."""
    scope = rule.get("Filter", {})
    prefix = scope.get("Prefix", scope.get("And", {}).get("Prefix", rule.get("Prefix", "")))
    below = f"{key}/" if key else ""
    return below.startswith(prefix) or str(prefix).startswith(below)
