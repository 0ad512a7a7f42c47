"""The API of Kubernetes on this machine: its own server over etcd, without nodes to run pods on.

Both programs are those of the machine that tests, as nobody packages them: the variables are the
ones that envtest of controller-runtime reads.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from hybrid_extensions.servers.process import HOST, end, free_ports, spawn
from hybrid_extensions.servers.server_programs import MissingServerError
from tests.services.processes import wait_for

API_SERVER, ETCD = "TEST_ASSET_KUBE_APISERVER", "TEST_ASSET_ETCD"
_TOKEN = "only-for-tests"
_START_S = 120


def programs() -> tuple[str, str]:
    """Paths of ``kube-apiserver`` and ``etcd``; without them the test is skipped."""
    api_server, etcd = os.environ.get(API_SERVER), os.environ.get(ETCD)
    if not api_server or not etcd:
        why = f"The variables {API_SERVER} and {ETCD} have to name its programs."
        command = "sh tests/services/kube_apiserver.sh FOLDER; apt-get install etcd-server"
        raise MissingServerError("Kubernetes' API server", why, command)
    return api_server, etcd


@contextmanager
def kubernetes_api(folder: Path, api_server: str, etcd: str) -> Iterator[tuple[str, Path]]:
    """Address of the API server, and a configuration that lets clients in."""
    secure, client, peer = free_ports(3)
    address, storage = f"https://{HOST}:{secure}", f"http://{HOST}:{client}"
    key, public, tokens = folder / "sa.key", folder / "sa.pub", folder / "tokens.csv"
    tokens.write_text(f"{_TOKEN},admin,admin,system:masters\n")
    for command in (
        ["openssl", "genrsa", "-out", str(key), "2048"],
        ["openssl", "rsa", "-in", str(key), "-pubout", "-out", str(public)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    database = {
        "data-dir": folder / "etcd",
        "listen-client-urls": storage,
        "advertise-client-urls": storage,
        "listen-peer-urls": f"http://{HOST}:{peer}",
        "initial-advertise-peer-urls": f"http://{HOST}:{peer}",
        "initial-cluster": f"default=http://{HOST}:{peer}",
    }
    server = {
        "etcd-servers": storage,
        "secure-port": secure,
        "bind-address": HOST,
        "cert-dir": folder / "certs",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": public,
        "service-account-signing-key-file": key,
        "token-auth-file": tokens,
        "authorization-mode": "RBAC",
        "service-cluster-ip-range": "10.0.0.0/24",
        # The controller that makes accounts does not run here.
        "disable-admission-plugins": "ServiceAccount",
    }
    log = folder / "kubernetes.log"
    with ExitStack() as stack:
        for program, options in ((etcd, database), (api_server, server)):
            given = [f"--{name}={value}" for name, value in options.items()]
            stack.callback(end, spawn([program, *given], log))
        wait_for(lambda: _is_ready(address), f"Kubernetes ({log})", _START_S)
        config = folder / "kubeconfig"
        config.write_text(yaml.safe_dump(_config(address, folder / "certs" / "apiserver.crt")))
        yield address, config


def _config(address: str, authority: Path) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": address, "certificate-authority": str(authority)},
            }
        ],
        "users": [{"name": "admin", "user": {"token": _TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
    }


def _is_ready(address: str) -> bool:
    # The server makes its certificate at its first start.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(
        f"{address}/readyz", headers={"Authorization": f"Bearer {_TOKEN}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
