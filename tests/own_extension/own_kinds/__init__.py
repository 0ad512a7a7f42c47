"""Kinds of databases that tests of the core declare, so that they need none of an extension.

The project finds them as it finds other packages, by the entry point in the folder beside this one,
which pytest has on its path.
"""

from sources.extensions import Extension

EXTENSION = Extension("own_kinds", databases="own_kinds.kinds:KINDS")
