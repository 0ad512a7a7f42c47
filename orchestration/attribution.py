"""Who launched a run: the user whom a proxy authenticated; another typed name is refused.

Dagster itself knows no users. Its documented way is a run coordinator that reads a header of the
request by which a run is launched, and puts a tag on the run. It is named in ``dagster.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

import dagster as dg

from sources.errors import InputError

USER_TAG = "user"
"""Tag of a run with the name of the user who launched it."""
SCHEDULE_TAG = "dagster/schedule_name"
"""Tag of a run with the name of the schedule that launched it, which Dagster itself sets."""
HEADER = "X-Forwarded-User"
"""Header in which a proxy passes on the name of the user whom it has authenticated."""


class UserRunCoordinator(dg.QueuedRunCoordinator[dg.DagsterInstance]):
    """Run coordinator that tags each run with the user who launched it in the browser.

    Runs wait in the queue for the daemon, as with Dagster's default. Use it only behind a proxy
    that authenticates and that replaces the header if a client sends it: whoever reaches the web
    server past the proxy can be anyone.

    In ``dagster.yaml``, with any option of Dagster's own coordinator next to ``header``::

        run_coordinator:
          module: orchestration.attribution
          class: UserRunCoordinator
          config: {header: X-Forwarded-User}

    Args:
        inst_data: What Dagster read from ``dagster.yaml``.
        header: Name of the header; upper and lower case are the same.
        options: Options of Dagster's own coordinator.
    """

    def __init__(self, inst_data: Any = None, header: str = HEADER, **options: Any) -> None:
        super().__init__(inst_data=inst_data, **options)
        self._header = header

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """Return the schema of the options in ``dagster.yaml``: Dagster's own ones, and ``header``.

        Called by Dagster, which refuses other options when it starts.
        """
        header = dg.Field(
            dg.StringSource,
            is_required=False,
            default_value=HEADER,
            description="Header with the name of the user whom the proxy has authenticated.",
        )
        return {**cast("dict[str, Any]", super().config_type()), "header": header}

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Mapping[str, Any]) -> Self:
        """Return the coordinator that ``dagster.yaml`` describes; called by Dagster."""
        return cls(inst_data=inst_data, **config_value)

    def submit_run(self, context: dg.SubmitRunContext) -> dg.DagsterRun:
        """Tag a run with its user, put it into the queue, and return it; called by Dagster.

        A tag of that name that a client sent itself is overwritten: with the user of the request,
        or with an empty text if the request names none. Runs of schedules, sensors and retries come
        from the daemon and not from a request; their tags stay.
        """
        run = context.dagster_run
        # The workspace of the daemon has no request.
        is_request = getattr(context.workspace, "source", None) is not None
        user = (context.get_request_header(self._header) or "").strip()
        if user or (is_request and USER_TAG in run.tags):
            self._instance.add_run_tags(run.run_id, {USER_TAG: user})
        return super().submit_run(context)


def acting_user(run_tags: Mapping[str, str], given: str | None) -> str:
    """Return who launched a run: the authenticated user, the name that was typed, or a schedule.

    Called by jobs that record who acted, before they change anything.

    Args:
        run_tags: The run's tags, of which ``user`` is the authenticated user. One of a schedule
            alone makes it ``schedule <name>``.
        given: Name that was typed into the form; None or empty if none was.

    Returns:
        The name without spaces around it; empty if there is none.

    Raises:
        InputError: There are both, and they differ.
    """
    user, typed = run_tags.get(USER_TAG, "").strip(), (given or "").strip()
    if user and typed and typed != user:
        message = (
            f"The name `{typed}` was given, but the run was launched by `{user}`, who is logged in "
            "at the proxy. Nothing was changed."
        )
        hint = f"Leave the name empty, or log in as `{typed}` and launch the run again."
        raise InputError(message, hint, field="by", value=typed)
    return user or typed or by_schedule(run_tags.get(SCHEDULE_TAG, ""))


def by_schedule(name: str) -> str:
    """Return a schedule as the one who acts, for the log of actions; empty for an empty name."""
    return name and f"schedule {name}"
