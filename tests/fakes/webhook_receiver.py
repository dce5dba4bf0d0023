"""A receiver of webhooks on loopback, over real HTTP or HTTPS."""

from __future__ import annotations

import ssl
import threading

from tests.fakes.http_double import Answer, HttpDouble, Request


class WebhookReceiver(HttpDouble):
    """Thanks for everything; ``script`` gives other answers first."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        #: While it is not set a request gets no answer.
        self.may_answer = threading.Event()
        self.may_answer.set()

    def answer(self, request: Request) -> Answer:
        self.may_answer.wait(120)
        return Answer(200, "thanks", content_type="text/plain")

    def close(self) -> None:
        self.may_answer.set()
        super().close()
