"""Numbers out: the state of pipelines as metrics of Prometheus, an optional part (``metrics``)."""

from sources.extensions import Extension

EXTENSION = Extension("metrics", commands="hybrid_extensions.metrics.cli:app")
