"""State of pipelines as Prometheus metrics; needs the extra ``metrics``."""

from sources.extensions import Extension

EXTENSION = Extension("metrics", commands="hybrid_extensions.metrics.cli:app")
