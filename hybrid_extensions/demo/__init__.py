"""The command `hybrid demo`, which runs the pipelines of `hybrid_demo`."""

from sources.extensions import Extension

EXTENSION = Extension("demo", commands="hybrid_extensions.demo.cli:app")
