"""Warnings about a bucket: lifecycle rules that delete or archive, old versions, object locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from hybrid_extensions.s3.files import DENIED, REFUSALS, connect, split, store_error
from sources.errors import UnavailableError
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings

_COLD = {"GLACIER", "DEEP_ARCHIVE"}
"""Storage classes whose objects can't be read at once."""


class _Rules(NamedTuple):
    """Rules of a bucket that the store is asked for.

    Attributes:
        method: Method of boto3's client that asks for them.
        what: The rules, in the plural.
        permission: Which permission reads them.
    """

    method: str
    what: str
    permission: str


_LIFECYCLE = _Rules(
    "get_bucket_lifecycle_configuration", "lifecycle rules", "s3:GetLifecycleConfiguration"
)
_VERSIONS = _Rules("get_bucket_versioning", "settings of versions", "s3:GetBucketVersioning")
_LOCKS = _Rules(
    "get_object_lock_configuration",
    "settings of object locks",
    "s3:GetBucketObjectLockConfiguration",
)


class _Unread(NamedTuple):
    """Rules that can't be read.

    Attributes:
        rules: The rules.
        is_denied: Whether the store refuses to show them to this login; else it did not answer.
    """

    rules: _Rules
    is_denied: bool


def bucket_warnings(settings: S3Settings, folder: Folder, field: str) -> list[str]:
    """Return warnings about the bucket of a folder that a pipeline writes to.

    Rules that the store does not know are left out. Nothing is raised for rules that can't be read.

    Args:
        settings: Address of the store.
        folder: Folder in the object store where documents or a table are to be written.
        field: Field of the declaration that names it.

    Returns:
        Sentences: about lifecycle rules that would delete or archive objects of the folder, about
        a bucket that keeps old versions without an end, about one that locks new objects, and
        about rules that can't be read, with the permission that reads them. Empty if there is
        nothing to tell.
    """
    bucket, key = split(folder.url)
    client = connect(settings)

    def asked(rules: _Rules) -> dict[str, Any] | _Unread:
        return _asked(
            settings, folder, partial(getattr(client, rules.method), Bucket=bucket), rules
        )

    lifecycle, versions, locks = asked(_LIFECYCLE), asked(_VERSIONS), asked(_LOCKS)
    warnings = list(_not_read([lifecycle, versions, locks], bucket, field))
    if not isinstance(lifecycle, _Unread):
        rules = lifecycle.get("Rules", [])
        rules = [rule for rule in rules if rule.get("Status") == "Enabled" and _covers(rule, key)]
        warnings += _deletions(rules, folder, field)
        is_tidied = any("NoncurrentVersionExpiration" in rule for rule in rules)
        is_kept = not isinstance(versions, _Unread) and versions.get("Status") == "Enabled"
        if is_kept and not is_tidied:
            warnings.append(
                f"Bucket `{bucket}` of `{field}` keeps every version of an object. Small documents "
                "are written every 10 s, so old versions pile up without an end: add a lifecycle "
                f"rule that deletes noncurrent versions below `{key}/`."
            )
    lock = {} if isinstance(locks, _Unread) else locks.get("ObjectLockConfiguration", {})
    if "DefaultRetention" in lock.get("Rule", {}):
        warnings.append(
            f"Bucket `{bucket}` of `{field}` locks new objects (object lock), so nothing that is "
            "deleted or written over is freed before its time: use a bucket without a default "
            "retention."
        )
    return warnings


def _asked(
    settings: S3Settings, folder: Folder, ask: Callable[[], dict[str, Any]], rules: _Rules
) -> dict[str, Any] | _Unread:
    """Return the store's answer about rules: empty where none are set, or it knows no such rules.

    Args:
        settings: Address of the store.
        folder: The folder that the rules are about.
        ask: Asks the store.
        rules: The rules.
    """
    try:
        return ask()
    except REFUSALS as error:
        if isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") in DENIED:
            return _Unread(rules, is_denied=True)
        is_outage = isinstance(store_error(settings, folder.url, "read", error), UnavailableError)
        return _Unread(rules, is_denied=False) if is_outage else {}


def _not_read(
    answers: Sequence[dict[str, Any] | _Unread], bucket: str, field: str
) -> Iterator[str]:
    """Yield a sentence about the rules that the login may not read, and about those unanswered."""
    unread = [each for each in answers if isinstance(each, _Unread)]
    for is_denied in (True, False):
        these = [each.rules for each in unread if each.is_denied is is_denied]
        if not these:
            continue
        permissions = ", ".join(f"`{each.permission}`" for each in these)
        yield (
            f"Of bucket `{bucket}` of `{field}` the {', '.join(each.what for each in these)} "
            "can't be read, so whether they harm what is written there is unknown: "
            + (
                f"grant the credentials in use {permissions} on the bucket, or ask its owner."
                if is_denied
                else "the store does not answer. Plan again once it does."
            )
        )


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
