"""Alerts to another system: `webhook` of `supervision`.

Belongs here: how an alert is posted. Does not belong here: when there is one, which the supervision
decides, and what it says (`orchestration.supervision.webhook`).
"""

from sources.extensions import Extension

EXTENSION = Extension("alerts", alerts="hybrid_extensions.alerts.post:post")
