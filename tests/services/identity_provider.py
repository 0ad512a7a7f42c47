"""A small identity provider: a token endpoint and its public keys, over TLS on this machine."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from hybrid_extensions.servers.secured import TokenIssuer

AUDIENCE = "kafka"
KEY_ID = "k1"


class IdentityProvider:
    """Issues signed tokens to clients that know their secret, as OAuth 2.0 says (RFC 6749, 4.4).

    Attributes:
        issued: All tokens.
    """

    def __init__(self, clients: Mapping[str, str], certificate: Path, key: Path) -> None:
        self._clients = dict(clients)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._claims: dict[str, Any] = {}
        self.issued: list[str] = []

        class Handler(_Handler):
            provider = self

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        # Kafka's client gets the keys without a way to declare an authority: plain HTTP for those.
        self._keys = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def token_url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}/token"

    @property
    def issuer(self) -> TokenIssuer:
        keys = f"http://127.0.0.1:{self._keys.server_address[1]}/keys"
        return TokenIssuer("https://id.example", keys, AUDIENCE)

    @contextmanager
    def issues(self, claims: dict[str, Any]) -> Iterator[None]:
        """Tokens have other claims, until the end of the block."""
        self._claims = claims
        yield
        self._claims = {}

    def token(self, client: str) -> str:
        """A token as the endpoint issues it."""
        now = int(time.time())
        own = {"iss": self.issuer.url, "aud": AUDIENCE, "sub": client, "jti": uuid.uuid4().hex}
        claims = {**own, "iat": now, "exp": now + 300, "scope": "kafka", **self._claims}
        made = jwt.encode(claims, self._key, "RS256", {"kid": KEY_ID})
        self.issued.append(made)
        return made

    def knows(self, authorization: str, form: Mapping[str, list[str]]) -> str | None:
        """The client that asks for a token; None if its secret or its request is wrong."""
        kind, _, encoded = authorization.partition(" ")
        client, _, secret = base64.b64decode(encoded).decode().partition(":")
        is_right = kind == "Basic" and self._clients.get(client) == secret
        asked = (form.get("grant_type"), form.get("scope"))
        return client if is_right and asked == (["client_credentials"], ["kafka"]) else None

    def keys(self) -> dict[str, Any]:
        """The public keys (RFC 7517)."""
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": KEY_ID, "alg": "RS256", "use": "sig"}]}

    def __enter__(self) -> IdentityProvider:
        for server in (self._server, self._keys):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in (self._server, self._keys):
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    provider: ClassVar[IdentityProvider]

    def do_GET(self) -> None:
        self._answer(200, self.provider.keys())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        client = self.provider.knows(self.headers.get("Authorization", ""), parse_qs(body))
        if client is None:
            self._answer(401, {"error": "invalid_client"})
            return
        token = self.provider.token(client)
        self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 300})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the library has it
        """Nothing: the secret is in the headers, and pytest shows what is printed."""
