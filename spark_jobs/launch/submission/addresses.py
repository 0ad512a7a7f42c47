"""Listening addresses of a driver with a local master: those of this machine only."""

from __future__ import annotations

import os
from collections.abc import Mapping

HERE = "127.0.0.1"
_BIND = "spark.driver.bindAddress"
# Spark's web UI knows no property for its address, only this variable.
_UI_VARIABLE = "SPARK_LOCAL_IP"


def local_conf() -> dict[str, str]:
    """Return Spark properties by which a local driver listens on this machine's loopback only."""
    return {
        # No look-up of this machine's name either.
        _BIND: HERE,
        "spark.driver.host": HERE,
        # Spark's UI has no login, and follows its links to kill jobs from any page of a browser.
        "spark.ui.killEnabled": "false",
    }


def ui_environment(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable that makes Spark's UI listen at the driver's address.

    Empty for a cluster, and where the variable is set already, which then decides.

    Args:
        master: Master URL.
        conf: Spark properties that the pipeline declares.
    """
    if not master.startswith("local") or os.environ.get(_UI_VARIABLE):
        return {}
    return {_UI_VARIABLE: conf.get(_BIND, HERE)}
