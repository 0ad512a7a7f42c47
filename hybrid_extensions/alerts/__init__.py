"""Alerts to another system: `webhook` of `supervision`.

Belongs here: an alert as a JSON document, and how it is posted. Does not belong here: when there is
one and what it says, which the supervision decides (`orchestration.supervision.webhook`).
"""

from sources.extensions import Extension

EXTENSION = Extension("alerts", alerts="hybrid_extensions.alerts.post:post_alert")
