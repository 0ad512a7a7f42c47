"""Login to Amazon MSK by IAM: credentials of AWS, found where its libraries find them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sources.common.optional import needs_extra

_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"


def msk_client_settings(region: str) -> dict[str, str | Callable[[str], tuple[str, float]]]:
    """Return librdkafka's settings for a login to Amazon MSK by IAM.

    A callback among them makes a signed token from AWS's credentials whenever one is needed. All
    but ``security.protocol``, which the caller adds.

    Args:
        region: Region of the cluster, such as ``eu-central-1``.

    Raises:
        InputError: The extra ``msk`` is not installed.
    """
    with needs_extra("msk", "`mechanism: AWS_MSK_IAM`"):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - few need it
    sign = partial(_signed, MSKAuthTokenProvider.generate_auth_token, region)
    return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": sign}


def msk_java_settings() -> dict[str, str]:
    """Return the settings by which Kafka's Java client logs in to Amazon MSK by IAM.

    All but ``security.protocol``, which the caller adds. They need the jars of the set ``msk`` on
    the class path, and contain no credentials: the client finds those of AWS itself.
    """
    return {
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f"{_MODULE} required;",
        "sasl.client.callback.handler.class": _HANDLER,
    }


def _signed(sign: Callable[[str], tuple[str, int]], region: str, _config: str) -> tuple[str, float]:
    """Return a token and when it expires, in Unix seconds, as confluent-kafka's ``oauth_cb``."""
    token, expires_ms = sign(region)
    return token, expires_ms / 1000
