"""A small OpenID Connect provider on loopback: discovery, authorization code with PKCE, signed ID tokens.

It approves at once, in the name of whoever ``person`` says. What it signs can be bent, to see who notices.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "nniweb", "kept between the two"


class OpenIdProvider:
    """``with OpenIdProvider() as provider: provider.person = {"sub": "1", ...}``."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {}
        #: Claims that stand in the ID token in place of the right ones.
        self.bent: dict[str, Any] = {}
        self.key = RSAKey.generate_key(2048, {"kid": "k", "alg": "RS256", "use": "sig"})
        #: The key that it signs with; another one than it publishes, to see who notices.
        self.signs_with = self.key
        self.redirect_addresses: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> OpenIdProvider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- its endpoints -----------------------------------------------------------------------

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"]}

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent back to."""
        assert query["client_id"] == CLIENT_ID
        assert query["response_type"] == "code"
        assert "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        self.redirect_addresses.append(query["redirect_uri"])
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """The tokens for a code; None where something is wrong with the request."""
        asked = self._codes.pop(form.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if asked is None or authorization != f"Basic {basic}" or form["redirect_uri"] != asked["redirect_uri"]:
            return None
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if challenge.decode() != asked["code_challenge"]:
            return None
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
                  **self.person, **self.bent}
        return {"access_token": secrets.token_urlsafe(8), "token_type": "Bearer", "expires_in": 300,
                "id_token": jwt.encode({"alg": "RS256", "kid": "k"}, claims, self.signs_with)}

    def _handler(provider) -> type[BaseHTTPRequestHandler]:  # noqa: N805  # the handler's own self is another
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                if parts.path == "/.well-known/openid-configuration":
                    self._answer(200, provider.metadata())
                elif parts.path == "/keys":
                    self._answer(200, {"keys": [provider.key.as_dict(private=False)]})
                elif parts.path == "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(query))
                    self.end_headers()
                else:
                    self._answer(404, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                found = provider.token(form, self.headers.get("Authorization", ""))
                self._answer(200 if found else 400, found or {"error": "invalid_grant"})

            def _answer(self, status: int, document: dict[str, Any]) -> None:
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
