"""Probe of a store that is to hold a state or a target: writable, with conditional writes."""

from __future__ import annotations

import uuid
from contextlib import suppress

from sources.errors import HybridError, InputError
from sources.storage.folder import Folder


def require_writable(folder: Folder, field: str) -> None:
    """Refuse a store that is not writable, or that ignores conditions of requests (``If-Match``).

    Writes a small object below the folder and deletes it again. Does nothing for a folder on this
    machine.

    Args:
        folder: Where documents or a Delta log are to be written.
        field: Field of the declaration that names it, for messages.

    Raises:
        InputError: The store ignores conditions, refuses to write or to delete, or is an account of
            Azure without a hierarchical namespace.
        UnavailableError: The store does not answer, or can't serve the request at the moment.
    """
    if folder.is_local:
        return
    documents, path = folder.documents, folder.location(f".probe-{uuid.uuid4().hex}")
    try:
        tag = documents.put_if_absent(path, b"first")
        is_kept = tag is not None and documents.put_if_absent(path, b"second") is None
        is_compared = is_kept and documents.replace(path, b"third", '"0"') is None
    except HybridError as error:
        error.hint = f"`{field}` has to be writable for this login. {error.hint}"
        with suppress(HybridError):
            documents.delete(path)
        raise
    documents.delete(path)
    if is_compared:
        if folder.url.startswith("abfss://"):
            _require_folders(folder, field)
        return
    message = (
        f"The store of {folder} ignores the conditions of requests (If-None-Match, If-Match): of "
        "two processes that write one object, the earlier one would lose its content silently. "
        "Nothing was started."
    )
    hint = (
        "Use a store that keeps to them, such as Amazon S3, MinIO or Ceph of today, or update this "
        f"one; or declare `{field}` on a file system."
    )
    raise InputError(message, hint, field=field, value=folder.url)


def _require_folders(folder: Folder, field: str) -> None:
    """Refuse an account of Azure that has no hierarchical namespace.

    Spark and Delta create a file there by a rename that must not replace one, which is one step
    only where folders exist of their own. There a file's folder is found next to it.
    """
    documents, probe = folder.documents, folder.folder(f".probe-{uuid.uuid4().hex}")
    documents.put(probe.location("file"), b"")
    has_folders = documents.exists(probe.url)
    probe.delete_all()
    if has_folders:
        return
    message = (
        f"The storage account of {folder} has no hierarchical namespace. Without it a rename is a "
        "copy: of two drivers that create one file of a checkpoint or of a Delta log, the earlier "
        "one would lose its content silently. Nothing was started."
    )
    hint = (
        "Use an account with Data Lake Storage Gen2 (hierarchical namespace), to which Azure can "
        f"upgrade this one; or declare `{field}` on a file system, in s3:// or in hdfs://."
    )
    raise InputError(message, hint, field=field, value=folder.url)
