"""Spark's login to Azure and Google Cloud Storage: properties name environment variables only.

No secret is passed on: a property names the variable, and Hadoop reads it where the client runs.
https://hadoop.apache.org/docs/r3.5.0/hadoop-azure/abfs.html,
https://hadoop.apache.org/docs/r3.5.0/hadoop-gcp/tools/hadoop-gcp/index.html
"""

from __future__ import annotations

import os
from collections.abc import Iterable

_PROVIDER = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
_SIGNATURES = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
_TENANTS = ("AZURE_STORAGE_TENANT_ID", "AZURE_TENANT_ID")
_CLIENTS = ("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID")
_SECRETS = ("AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET")
_KEY_FILES = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH")


def cloud_conf(urls: Iterable[str]) -> dict[str, str]:
    """Return the Spark properties by which Hadoop logs in to the Azure and Google stores of URLs.

    They name environment variables, never their values: those from which obstore takes its login. A
    store without such variables gets none, as ``spark.conf`` may declare another way. Other URLs
    are skipped. Of an account's key, client and SAS token the first that is set counts.
    """
    named = list(urls)
    accounts = {
        url.partition("://")[2].partition("/")[0].rpartition("@")[2]
        for url in named
        if url.startswith("abfss://")
    }
    conf = [pair for account in sorted(accounts) for pair in _azure(account).items()]
    if any(url.startswith("gs://") for url in named):
        conf += _google().items()
    return {f"spark.hadoop.{name}": value for name, value in conf}


def _azure(account: str) -> dict[str, str]:
    kind, named = f"fs.azure.account.auth.type.{account}", f"fs.azure.account.oauth2.%s.{account}"
    if key := _set(_KEYS):
        return {kind: "SharedKey", f"fs.azure.account.key.{account}": _read(key)}
    tenant, client, secret = (_set(names) for names in (_TENANTS, _CLIENTS, _SECRETS))
    if tenant and client and secret:
        endpoint = f"https://login.microsoftonline.com/{_read(tenant)}/oauth2/token"
        return {
            kind: "OAuth",
            f"fs.azure.account.oauth.provider.type.{account}": _PROVIDER,
            named % "client.endpoint": endpoint,
            named % "client.id": _read(client),
            named % "client.secret": _read(secret),
        }
    if signature := _set(_SIGNATURES):
        return {kind: "SAS", f"fs.azure.sas.fixed.token.{account}": _read(signature)}
    return {}


def _google() -> dict[str, str]:
    if key_file := _set(_KEY_FILES):
        return {
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": _read(key_file),
        }
    if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return {"fs.gs.auth.type": "APPLICATION_DEFAULT"}
    return {}


def _set(names: Iterable[str]) -> str | None:
    return next((name for name in names if os.environ.get(name)), None)


def _read(variable: str) -> str:
    return f"${{env.{variable}}}"
