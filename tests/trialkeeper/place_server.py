"""The server of a warm place: it has one attempt after the other for it, each with a token of its own."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from trialkeeper import contract


class PlaceServer(ScriptedKeeperServer):
    """The first attempt is its own. ``give`` adds further ones; ``attempts`` has what is known of them."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: dict[str, ScriptedKeeperServer] = {}
        self._given: list[dict[str, Any]] = []
        #: What the place has asked, in order.
        self.questions: list[dict[str, Any]] = []
        #: (status, document) of each answer to a question, in place of the right one.
        self.refuses: tuple[int, str] | None = None

    def give(self, name: str, **fields: Any) -> ScriptedKeeperServer:
        """The next attempt of the place: what differs from the job of the first one."""
        attempt = ScriptedKeeperServer(name)
        attempt.token = f"token-of-{name}"
        attempt.next_report_within = self.next_report_within
        with self._changed:
            self.attempts[name] = attempt
            self._given.append({"job_name": name, "trial_job_id": name, "sequence_id": len(self._given),
                                "token": attempt.token, **fields})
            self._changed.notify_all()
        return attempt

    @property
    def left(self) -> str | None:
        """Why the place was given back; None while it is there."""
        return next((question["leave"] for question in self.questions if question["leave"]), None)

    def end(self) -> None:
        self.stop()
        for attempt in self.attempts.values():
            attempt.stop()

    def _answer(self, handler: Any, path: str, body: bytes) -> tuple[int, Any]:
        name, _, what = path.partition("/")[2].partition("/")
        if name in self.attempts:
            return self.attempts[name]._answer(handler, path, body)
        if what != "next":
            return super()._answer(handler, path, body)
        assert handler.headers.get("Authorization") == f"Bearer {self.token}"
        return self._next(json.loads(body))

    def _next(self, question: contract.NextDocument) -> tuple[int, Any]:
        known = {"installation": self.installation}
        until = time.monotonic() + question["wait"]
        with self._changed:
            self.questions.append(dict(question))
            if self.refuses is not None:
                return self.refuses[0], {**known, "error": self.refuses[1], "message": "no"}
            if question["running"] or question["leave"] not in (None, contract.LEAVES_IDLE):
                return 200, {**known, "job": None}
            while True:
                names = [self.job_name, *(job["job_name"] for job in self._given)]
                behind = self._given[names.index(question["after"]):]
                if behind or time.monotonic() >= until or self._server is None:
                    return 200, {**known, "job": behind[0] if behind else None}
                self._changed.wait(0.02)
