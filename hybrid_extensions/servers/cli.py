"""Command `hybrid broker`, which runs a Kafka broker on this machine."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import answer

app = typer.Typer()


@app.command(rich_help_panel=panels.START)
def broker(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps the records; by default `broker` in the cache."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Topic to create, if it is not there; may be repeated."),
    ] = None,
) -> None:
    """Run a Kafka broker on this machine until Ctrl-C.

    Pipelines reach it with `bootstrap_servers: local`. There is one at a time: another folder's is
    shared or ended, never replaced. While one runs, `--topic` creates topics there, and returns.
    """
    with answer(as_json=False, effect="Topics stay in the folder of their broker."):
        from hybrid_extensions.servers.broker import LocalBroker, running_broker
        from sources.common.cache import cache_folder
        from sources.kafka.client.address import local_address_file

        if topics and data is None and (other := running_broker(local_address_file())) is not None:
            there = _create_missing(other.servers, topics)
            names = ", ".join(f"`{topic}`" for topic in topics)
            typer.echo(
                f"Kafka listens at {other.servers}, process {other.pid}, and has {names}, "
                f"perhaps among other topics.{there}"
            )
            return
        # SIGTERM ends it as Ctrl-C does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        folder = data or cache_folder() / "broker"
        with LocalBroker(folder, address_file=local_address_file()) as running:
            servers = running.bootstrap_servers
            there = _create_missing(servers, topics or [])
            typer.echo(f"Kafka listens at {servers}; Ctrl-C ends it.{there}")
            running.wait()


def _create_missing(servers: str, topics: list[str]) -> str:
    """Create those of the topics that a broker does not have; return a sentence about the others.

    It begins with a space, and is empty if there are none.
    """
    from hybrid_extensions.servers.broker import create_topic, topics_of

    there = topics_of(servers)
    for topic in sorted({*topics} - there):
        create_topic(servers, topic)
    if not (before := [topic for topic in topics if topic in there]):
        return ""
    return (
        f" There before, with the records that they have: {', '.join(before)}. For topics without "
        "any, choose other names, or another folder with `--data`."
    )
