"""Class archive of drivers on this machine, with which they start a quarter sooner.

Belongs here: when the archive is made, and which driver may use it.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "class_archive", class_archive="hybrid_extensions.class_archive.archive:ARCHIVE"
)
