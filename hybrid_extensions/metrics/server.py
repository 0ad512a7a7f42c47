"""HTTP server of the endpoint ``/metrics``, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hybrid_extensions.metrics.collector import PipelineCollector
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("metrics", "`hybrid metrics`"):
    from prometheus_client import CollectorRegistry, start_http_server


@contextmanager
def serve(paths: Sequence[Path], host: str, port: int) -> Iterator[str]:
    """Serve the metrics of pipelines over HTTP, in a thread, until the end of the ``with`` block.

    Args:
        paths: The pipelines' files.
        host: Address to listen on.
        port: Port to listen on; 0 for a free one.

    Yields:
        URL of the endpoint, such as ``http://127.0.0.1:9464/metrics``.

    Raises:
        InputError: The address can't be listened on.
    """
    registry = CollectorRegistry()
    registry.register(PipelineCollector(paths))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        message = f"Metrics can't be served at {host}:{port}: {error.strerror or error}."
        hint = "Name another `--port`, or a `--host` that is an address of this machine."
        raise InputError(message, hint, server=f"{host}:{port}") from None
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
