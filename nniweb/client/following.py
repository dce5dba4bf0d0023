"""Follows an experiment on a terminal: a line that moves, and at the end the best trial. Here or over REST."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TextIO

from nniweb.client.errors import CannotReach, NotFound
from nniweb.client.experiment import Experiment
from nniweb.client.words import (
    best_trial_lines,
    failure_lines,
    front_lines,
    outcome_words,
    printable_lines,
    progress_line,
    readable_seconds,
)

#: Seconds between two lines where the output is no terminal and something changed.
PLAIN_LINE_EVERY = 5.0
#: Seconds without any worker after which nothing is waited for.
NOBODY_WORKS_FOR = 15.0
#: Seconds without the server after which nothing is waited for.
AWAY_FOR = 600.0

#: Trials of a Pareto front that are named.
MOST_OF_FRONT = 20
#: Exit status of a command that followed an experiment to its end; docs/client.md has them all.
EXIT_STATUS = {"DONE": 0, "ERROR": 1, "STOPPED": 3}
#: That of an experiment that is DONE where its outcome is ``failed``.
EVERY_TRIAL_FAILED = 1
NO_WORKER, UNREACHABLE = 2, 4


class Output(Protocol):
    """What is used of a stream on which progress is written."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...

    def isatty(self) -> bool: ...


class MayBeClosed:
    """Writes for as long as somebody reads; after that the search goes on, and nothing is written."""

    def __init__(self, stream: TextIO | None) -> None:
        """``stream``: None where the process has none, as ``sys.stdout`` of one that was started without."""
        self._stream = stream

    def write(self, text: str) -> None:
        if self._stream is not None:
            try:
                self._stream.write(text)
            except (OSError, ValueError):
                self._stream = None

    def flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._stream = None

    def isatty(self) -> bool:
        try:
            return self._stream is not None and self._stream.isatty()
        except ValueError:  # it is closed
            return False


class Followed(Protocol):
    """An experiment, wherever it is. Every method may raise CannotReach."""

    #: Seconds between two looks.
    look_every: float
    #: A sentence for where no worker is alive.
    how_to_start: str

    def look(self) -> tuple[object, str] | None:
        """Something that is different after each change, and the status; None where it was deleted."""

    def document(self) -> Mapping[str, Any]:
        """As REST shows it."""

    def best_trial(self) -> Mapping[str, Any] | None:
        """As REST shows it."""

    def front(self) -> Sequence[Mapping[str, Any]]:
        """The first trials on the Pareto front, as REST shows them; of an experiment with several objectives."""

    def failures(self) -> Sequence[Mapping[str, Any]]:
        """Why trials failed, the most frequent cause first, as REST shows it."""

    def somebody_works(self) -> bool:
        """Whether any worker is alive."""


class RestFollowed:
    """An experiment of a server elsewhere."""

    look_every = 1.0
    how_to_start = "Ask an administrator to start the server again, or to start only a worker (nniweb worker)."

    def __init__(self, client: Any, experiment: Experiment) -> None:
        self._client = client
        self._experiment = experiment
        self._next_question = 0.0
        self._worked = True

    def look(self) -> tuple[object, str] | None:
        try:
            self._experiment.refresh(patience=0)
        except NotFound:
            return None
        return self._experiment.document["revision"], self._experiment.status

    def document(self) -> Mapping[str, Any]:
        return self._experiment.document

    def best_trial(self) -> Mapping[str, Any] | None:
        best = self._experiment.best_trial()
        return None if best is None else best.document

    def front(self) -> Sequence[Mapping[str, Any]]:
        return self._experiment.front(MOST_OF_FRONT)

    def failures(self) -> Sequence[Mapping[str, Any]]:
        try:
            return self._experiment.failures()
        except NotFound:  # an older server
            return ()

    def somebody_works(self) -> bool:
        now = time.monotonic()
        if now >= self._next_question:
            self._worked = self._client.workers_alive()
            self._next_question = now + 5
        return self._worked


class Follower:
    """One experiment, one stream. ``monotonic`` and ``wait`` (both in seconds) are given by tests."""

    def __init__(self, followed: Followed, out: Output, *, monotonic: Callable[[], float] = time.monotonic,
                 wait: Callable[[float], None] = time.sleep) -> None:
        self._followed = followed
        self._out = out
        self._moves = out.isatty()
        self._monotonic = monotonic
        self._wait = wait
        self._line_length = 0
        self._next_plain_line = 0.0

    def follow(self) -> int:
        """Write the progress until the end; returns the exit status."""
        seen: object = None
        alone_since: float | None = None
        away_since: float | None = None
        while True:
            now = self._monotonic()
            try:
                found = self._followed.look()
                if found is None:
                    self._say("The experiment was deleted.")
                    return EXIT_STATUS["STOPPED"]
                status = found[1]
                if found != seen:
                    self._show(self._followed.document(), at_once=status in EXIT_STATUS)
                    seen = found
                if status in EXIT_STATUS:
                    document = self._followed.document()
                    self._summary(document)
                    has_failed = status == "DONE" and document.get("outcome") == "failed"
                    return EVERY_TRIAL_FAILED if has_failed else EXIT_STATUS[status]
                somebody_works = self._followed.somebody_works()
            except CannotReach as error:
                if away_since is None:
                    away_since = now
                    self._say(f"{error} The client tries again for {readable_seconds(AWAY_FOR)}.")
                elif now - away_since >= AWAY_FOR:
                    self._say(f"The server has not answered for {readable_seconds(now - away_since)}. The state of the "
                              "experiment is not known. It may continue.")
                    return UNREACHABLE
                self._wait(self._followed.look_every)
                continue
            if away_since is not None:
                away_since = None
                self._say("The server answers again.")
            if somebody_works:
                alone_since = None
            elif alone_since is None:
                alone_since = now
            elif now - alone_since >= NOBODY_WORKS_FOR:
                self._say(f"No worker has been alive for {NOBODY_WORKS_FOR:.0f} seconds, so no trial is started. "
                          f"{self._followed.how_to_start} The experiment is stored and continues then.")
                return NO_WORKER
            self._wait(self._followed.look_every)

    def say_it_goes_on(self, command: str, experiment_id: str) -> None:
        """After Ctrl-C. ``command``: what a person types before ``experiments``."""
        self._say(f"The experiment continues. `{command} experiments show {experiment_id}` shows it, `{command} "
                  f"experiments stop {experiment_id}` ends it.")

    def _show(self, document: Mapping[str, Any], *, at_once: bool) -> None:
        now = self._monotonic()
        line = progress_line(document)
        if self._moves:
            line = line[: shutil.get_terminal_size().columns - 1]  # a wrapped line cannot be written over
            self._out.write(f"\r{line.ljust(self._line_length)}")
            self._line_length = len(line)
        elif at_once or now >= self._next_plain_line:
            self._out.write(f"{line}\n")
            self._next_plain_line = now + PLAIN_LINE_EVERY
        self._out.flush()

    def _say(self, text: str) -> None:
        text = printable_lines(text)
        self._out.write(f"\n{text}\n" if self._line_length else f"{text}\n")
        self._line_length = 0
        self._out.flush()

    def _summary(self, document: Mapping[str, Any]) -> None:
        self._say(f"{document['status']}{f': {message}' if (message := document['message']) else ''}")
        if words := outcome_words(document):
            self._say(f"{words}.")
            for line in failure_lines(self._followed.failures()):
                self._say(line)
        lines = best_trial_lines(self._followed.best_trial()) if document["progress"].get("front") is None \
            else front_lines(document, self._followed.front())
        for line in lines or ["No trial reported a result."]:
            self._say(line)
