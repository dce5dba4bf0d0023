"""Follows an experiment on a terminal: a line that moves, and at the end the best trial."""

import json
import shutil
import time
from collections.abc import Callable
from typing import Any, TextIO

from django.utils import timezone

from nniweb.experiments.exact_text import printable
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.progress import Progress, progress_of
from nniweb.experiments.worker_presence import ALIVE_FOR, HOW_TO_START, worker_is_alive
from nniweb.own_files import COMMAND

#: Seconds between two looks at the experiment's revision.
LOOK_EVERY = 0.5
#: Seconds between two lines where the output is no terminal and something changed.
PLAIN_LINE_EVERY = 5.0
_BAR = 30

#: Exit status of a command that followed an experiment to its end.
EXIT_STATUS = {ExperimentStatus.DONE: 0, ExperimentStatus.ERROR: 1, ExperimentStatus.STOPPED: 3}
NO_WORKER = 2


class Follower:
    """One experiment, one stream. ``monotonic`` and ``wait`` (both in seconds) are given by tests."""

    def __init__(self, experiment: Experiment, out: TextIO, *, monotonic: Callable[[], float] = time.monotonic,
                 wait: Callable[[float], None] = time.sleep) -> None:
        self._pk = experiment.pk
        self._out = out
        self._moves = out.isatty()
        self._monotonic = monotonic
        self._wait = wait
        self._line_length = 0
        self._next_plain_line = 0.0

    def follow(self) -> int:
        """Write the progress until the end; returns the exit status. Looks at one row as long as nothing changes."""
        seen = None
        alone_since: float | None = None
        while True:
            found = Experiment.objects.filter(pk=self._pk, deleted_at=None).values_list("revision", "status").first()
            if found is None:
                self._say("The experiment was deleted.")
                return EXIT_STATUS[ExperimentStatus.STOPPED]
            has_ended = found[1] in EXIT_STATUS
            if found != seen:
                seen = found
                experiment = Experiment.objects.get(pk=self._pk)
                progress = progress_of([experiment], timezone.now())[self._pk]
                self._show(experiment, progress, at_once=has_ended)
            if has_ended:
                self._summary(experiment, progress)
                return EXIT_STATUS[ExperimentStatus(found[1])]
            now = self._monotonic()
            if worker_is_alive():
                alone_since = None
            elif alone_since is None:
                alone_since = now
            elif now - alone_since >= ALIVE_FOR.total_seconds():
                self._say(f"No worker has been alive for {ALIVE_FOR.total_seconds():.0f} seconds, so nothing goes on. "
                          f"{HOW_TO_START} The experiment is kept and begins then.")
                return NO_WORKER
            self._wait(LOOK_EVERY)

    def say_it_goes_on(self, experiment: Experiment) -> None:
        """After Ctrl-C."""
        self._say(f"The experiment goes on. `{COMMAND} experiments show {experiment.public_id}` shows it, "
                  f"`{COMMAND} experiments stop {experiment.public_id}` ends it.")

    def _show(self, experiment: Experiment, progress: Progress, *, at_once: bool) -> None:
        now = self._monotonic()
        line = progress_line(experiment, progress)
        if self._moves:
            line = line[: shutil.get_terminal_size().columns - 1]  # a wrapped line cannot be written over
            self._out.write(f"\r{line.ljust(self._line_length)}")
            self._line_length = len(line)
        elif at_once or now >= self._next_plain_line:
            self._out.write(f"{line}\n")
            self._next_plain_line = now + PLAIN_LINE_EVERY
        self._out.flush()

    def _say(self, text: str) -> None:
        self._out.write(f"\n{text}\n" if self._line_length else f"{text}\n")
        self._line_length = 0
        self._out.flush()

    def _summary(self, experiment: Experiment, progress: Progress) -> None:
        self._say(f"{experiment.status}{f': {experiment.message}' if experiment.message else ''}")
        if progress.best_trial_id is None:
            self._say("No trial gave a result.")
            return
        for line in best_trial_lines(progress):
            self._say(line)


def progress_line(experiment: Experiment, progress: Progress) -> str:
    """Bar, counts by status, best value so far, on one line."""
    filled = round(_BAR * progress.fraction) if progress.fraction is not None else 0
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] " if progress.fraction is not None else ""
    of = f"/{experiment.max_trial_number}" if experiment.max_trial_number else ""
    counts = ", ".join(f"{count} {status.lower().replace('_', ' ')}" for status, count in progress.counts.items()
                       if count)
    best = f"  best {progress.best_value:g}" if progress.best_value is not None else ""
    left = f"  about {readable_seconds(progress.eta)} left" if progress.eta else ""
    return f"{bar}{experiment.status}  {progress.ended}{of} ended" + (f" ({counts})" if counts else "") + best + left


def best_trial_lines(progress: Progress) -> list[str]:
    """The best trial with its value and parameters; nothing where there is none."""
    trial = Trial.objects.filter(public_id=progress.best_trial_id).first() if progress.best_trial_id else None
    if trial is None:
        return []
    return [f"Best trial: {trial.sequence_id} ({trial.public_id}), final value {printable(trial.final_value or '')}",
            *(f"  {name} = {value}" for name, value in _parameters(trial).items())]


def _parameters(trial: Trial) -> dict[str, Any]:
    first = trial.parameter_sets.first()
    value = first.value if first else None
    return {str(key): json.dumps(item) for key, item in value.items()} if isinstance(value, dict) else {}


def readable_seconds(seconds: float) -> str:
    """``95`` as ``1 min 35 s``; two units are enough."""
    left, parts = int(seconds), []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"
