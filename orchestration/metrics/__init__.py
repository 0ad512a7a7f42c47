"""Numbers out: the state of pipelines as metrics of Prometheus, an optional part (``metrics``)."""
