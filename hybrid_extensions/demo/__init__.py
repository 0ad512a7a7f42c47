"""The command `hybrid demo`, which runs the pipelines of `hybrid_demo`.

Belongs here: the command's options, and what it starts.
"""

from sources.extensions import Extension

EXTENSION = Extension("demo", commands="hybrid_extensions.demo.cli:app")
