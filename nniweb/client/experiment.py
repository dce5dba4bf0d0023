"""An experiment and a trial on a server, as objects. What they show is as old as their last ``refresh``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from nniweb.client.code_variant import Files, with_variant
from nniweb.client.errors import FieldError, NotFound, WaitedTooLong
from nniweb.client.records import Records, metric_records, value_of
from nniweb.client.transport import Transport
from nniweb.client.written_file import write_whole
from trainingservice.words.shown_value import shown

#: Statuses in which nothing happens any more, unless somebody resumes it.
ENDED = ("DONE", "STOPPED", "ERROR")
#: Seconds between two looks of ``wait``.
LOOK_EVERY = 1.0


class Experiment:
    """One experiment. ``document``: everything that REST tells of it; lists leave some of it out until ``refresh``."""

    def __init__(self, client: Transport, document: Mapping[str, Any]) -> None:
        self._client = client
        self.document: dict[str, Any] = dict(document)

    def __repr__(self) -> str:
        return f"<Experiment {self.id} {self.name!r}: {self.status}>"

    @property
    def id(self) -> str:
        return str(self.document["id"])

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def status(self) -> str:
        return str(self.document["status"])

    @property
    def outcome(self) -> str | None:
        """How it ended: succeeded, partly_failed, failed (trials failed, none succeeded) or no_result; None before."""
        return self.document.get("outcome")

    @property
    def message(self) -> str:
        """Why it is as it is, where there is something to say."""
        return str(self.document["message"])

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def url(self) -> str:
        """The address of its page."""
        return f"{self._client.server}/experiments/{self.id}/"

    def refresh(self, *, patience: float | None = None) -> Self:
        """Look at it again. ``patience``: as of the client, for this once."""
        self.document = dict(self._client.get(self._path, patience=patience))
        return self

    def wait(self, timeout: float | None = None, *, every: float = LOOK_EVERY,
             on_change: Callable[[Experiment], None] | None = None) -> Self:
        """Wait until it has ended, however: ``status`` says how. ``on_change`` is called after each change.

        Raises WaitedTooLong after ``timeout`` seconds; CannotReach where the server is away longer than the client has
        patience. Neither harms the experiment.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        seen = None
        while True:
            self.refresh()
            mark = (self.document["revision"], self.status)
            if on_change is not None and mark != seen:
                on_change(self)
            seen = mark
            if self.has_ended:
                return self
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitedTooLong(f"{self.name} ({self.id}) is {self.status} after {timeout:g} s. It continues.")
            time.sleep(every)

    # --- results ---------------------------------------------------------------------------------------------

    def trials(self, filter: str | None = None, **filters: Any) -> Records:
        """Its trials as records, in order. ``filter`` in words: ``"status = FAILED and lr < 0.01"``; others as of REST:
        ``status="SUCCEEDED"``, ``order="-final_value"``, ``group="proposals"`` (one record for each proposal).
        """
        rows = self._client.get_all(f"{self._path}trials/", filter=filter, **filters)
        return Records({**row, "final_value": value_of(row["final_value"])} for row in rows)

    def newest_trials(self, most: int) -> Records:
        """At most so many (up to 1000) of its trials, the newest first. One request."""
        rows = self._client.get(f"{self._path}trials/", order="-sequence_id", page_size=most)["results"]
        return Records({**row, "final_value": value_of(row["final_value"])} for row in rows)

    def metrics(self) -> Records:
        """Every value that counts of every trial: intermediate ones by step, and final ones. One request."""
        return metric_records(json.loads(b"".join(self.export(intermediate=True))))

    def trial(self, which: str | int) -> Trial:
        """A trial by its id or its number. Raises NotFound."""
        if isinstance(which, str):
            return Trial(self._client, self._client.get(f"trials/{segment(which)}/"))
        found = [row for row in self._client.get(f"{self._path}trials/", q=which)["results"]
                 if row["sequence_id"] == which]
        if not found:
            raise NotFound(404, [FieldError("", f"{self.name} has no trial {which}.")])
        return Trial(self._client, found[0])

    def best_trial(self) -> Trial | None:
        """The trial with the best result so far; None where there is no result. With replicates the first trial of the
        best proposal that was run in full, whose mean ``document["proposal"]`` has.
        """
        best = self.refresh().document["progress"]["best_trial_id"]
        return self.trial(best) if best is not None else None

    def front(self, most: int | None = None) -> Records:
        """The trials on the Pareto front, the best in the first objective first (all of them, or at most so many);
        with one objective there are none.
        """
        sign = "-" if self.document["optimize_mode"] == "maximize" else ""
        return Records(self.trials("front = yes", order=f"{sign}final_value")[:most])

    def failures(self) -> Records:
        """Why trials failed, equal failures together, the most frequent first: count, message, reason, trial_id, and
        more.
        """
        return Records(self._client.get(f"{self._path}failures/"))

    def changes(self) -> Records:
        """What people changed after the launch, the newest first: number, at, who, via, undoes, values."""
        return Records(self._client.get_all(f"{self._path}changes/"))

    def clusters(self) -> Records:
        """Of an experiment on several clusters: what runs on each, what it took and cost, and why one gets nothing."""
        return Records(self._client.get(f"{self._path}clusters/"))

    def change_clusters(self, clusters: list[dict[str, Any]]) -> Self:
        """Make this the list of its clusters, as ``clusters`` of a config file; ``document["clusters"]`` is the present
        one. A cluster that is left out gets no new trials.
        """
        self.document = dict(self._client.change("PATCH", self._path, {"clusters": clusters}))
        return self

    def undo_change(self, number: int) -> Self:
        """Take a change back. Raises Conflict where its values were changed again since."""
        self.document = dict(self._client.change("POST", f"{self._path}changes/{number}/actions/undo/"))
        return self

    def export(self, format: str = "json", *, intermediate: bool = False, raw: bool = False) -> Iterator[bytes]:
        """Its trials as a file, ``json`` or ``csv``, in pieces. ``raw``: texts in CSV are not kept from being a formula
        to a spreadsheet.
        """
        return self._client.stream(f"{self._path}export/", format=format, intermediate=intermediate,
                                   **({"raw": True} if raw else {}))

    # --- steering --------------------------------------------------------------------------------------------

    def stop(self) -> Self:
        """End it and its trials. Harmless on an ended one."""
        return self._act("stop", may_repeat=True)

    def pause(self) -> Self:
        """Start nothing new; running trials go on to their end, or are frozen where the config file says so."""
        return self._act("pause")

    def freeze(self, *numbers: int) -> Self:
        """Pause it and freeze its running trials, until ``resume``; or freeze the trials of these numbers, until
        ``thaw``. A frozen trial saves a checkpoint, ends, and goes on from there. Raises NotFound and Conflict.
        """
        return self._trials_do("freeze", numbers) if numbers else self._act("freeze", may_repeat=True)

    def thaw(self, *numbers: int) -> Self:
        """Have its frozen trials go on, all or those of these numbers. Raises NotFound."""
        return self._trials_do("thaw", numbers)

    def _trials_do(self, action: str, numbers: Sequence[int]) -> Self:
        body: dict[str, Any] = {"trials": [self.trial(number).id for number in numbers]} if numbers else {"fitting": {}}
        self._client.change("POST", f"{self._path}trials/actions/{action}/", body, may_repeat=True)
        return self.refresh()

    def resume(self, *, max_trial_number: int | None = None, max_duration: str | float | None = None) -> Self:
        """Go on after a pause, a stop or an error; with a higher limit also where it is done. Raises Refused."""
        limits = {"max_trial_number": max_trial_number, "max_duration": max_duration}
        return self._act("resume", {name: limit for name, limit in limits.items() if limit is not None})

    def rerun_failed(self) -> Self:
        """Run all failed trials again, as new ones. Raises Conflict."""
        return self._act("rerun-failed")

    def submit(self, parameters: Mapping[str, Any], *, patch: str | None = None, files: Files | None = None) -> Trial:
        """Run a trial with these parameters, which need not lie inside the search space, in the next free slot.

        ``patch`` (a unified diff) or ``files`` (path -> new text, None: removed): changes to the experiment's code for
        this trial alone, where its config permits them (codeVariants). Raises Refused and Conflict.
        """
        body = with_variant({"parameters": dict(parameters)}, patch, files)
        return Trial(self._client, self._client.change("POST", f"{self._path}trials/", body))

    def rerun(self, which: str | int, changes: Mapping[str, Any] | None = None, *, patch: str | None = None,
              files: Files | None = None) -> Trial:
        """Run a trial (its id or its number) again as a new one, with other values of the parameters in ``changes``. It
        counts towards maxTrialNumber, which grows by one where it is reached; a DONE experiment goes on with it.
        ``patch``, ``files``: as of ``submit``, in place of the trial's own changes to the code, which it keeps
        otherwise. Raises NotFound, Refused and Conflict.
        """
        trial = self.trial(which)
        body = {"parameters": {**(trial.document["parameters"] or {}), **changes}} if changes else {}
        body = with_variant(body, patch, files)
        return Trial(self._client, self._client.change("POST", f"trials/{trial.document['id']}/actions/rerun/", body))

    def change(self, **changes: Any) -> Self:
        """Change limits, concurrency, search space, words: ``max_trial_number=200``. Raises Refused."""
        self.document = dict(self._client.change("PATCH", self._path, changes, may_repeat=True))
        return self

    # --- with the tuner External -------------------------------------------------------------------------------

    def propose(self, *proposals: Mapping[str, Any], keys: Sequence[str] | None = None, complete: bool = False,
                patch: str | None = None, files: Files | None = None) -> list[Trial]:
        """Propose parameter sets where the tuner is External; each becomes a trial. All are taken, or none.

        ``keys``: a name for each, unique in the experiment: a proposal that is sent again under its name finds its
        trial, and the client repeats the request while the server is away. ``complete``: no more follow. ``patch``,
        ``files``: changes to the code for all of them, as of ``submit``. Raises Refused
        (field ``proposals[i].parameters.NAME``, ``proposals[i].key`` or ``proposals[i].variant.patch``) and Conflict.
        """
        if keys is not None and len(keys) != len(proposals):
            raise ValueError(f"{len(proposals)} proposals need as many keys, not {len(keys)}")
        rows = [with_variant({"parameters": dict(parameters), **({} if keys is None else {"key": keys[place]})},
                             patch, files) for place, parameters in enumerate(proposals)]
        answer = self._client.change("POST", f"{self._path}proposals/", {"proposals": rows, "complete": complete},
                                     may_repeat=keys is not None or not rows)
        return [Trial(self._client, row["trial"]) for row in answer["trials"]]

    def wanted(self) -> int:
        """How many more proposals could run now, where the tuner is External."""
        return int(self._client.get(f"{self._path}proposals/")["wanted"])

    def results(self, after: int = -1, *, wait: float = 0.0, every: float = LOOK_EVERY) -> tuple[Records, int]:
        """What its tuner was told since ``after``, and what to give as ``after`` the next time; -1: from the beginning.

        Records of ends of trials and of imported results, in order: ``key``, ``parameters``, ``value``, ``status``,
        ``sequence_id`` and more. Nothing is left out or comes twice, also when server or caller were started anew.
        ``wait``: where there is none yet, look every ``every`` seconds for so long, or until the experiment has ended.
        """
        deadline = time.monotonic() + wait
        found: list[dict[str, Any]] = []
        while True:
            page = self._client.get(f"{self._path}results/", after=after)
            found += page["results"]
            after = int(page["next"])
            if page["has_more"]:
                continue
            if found or page["status"] in ENDED or time.monotonic() >= deadline:
                return Records(found), after
            time.sleep(min(every, max(0.0, deadline - time.monotonic())))

    def import_results(self, results: list[Mapping[str, Any]] | Mapping[str, Any]) -> int:
        """Tell its tuner of results from elsewhere, ``[{"parameter": {...}, "value": 0.5}]``, or those of an export in
        JSON; returns how many.
        """
        return int(self._client.change("POST", f"{self._path}actions/import-data/", {"results": results})["imported"])

    def delete(self) -> None:
        """Remove it with its trials and what they left. Raises Conflict where it has not ended."""
        self._client.change("DELETE", self._path)

    def _act(self, action: str, body: Any = None, *, may_repeat: bool = False) -> Self:
        self.document = dict(self._client.change("POST", f"{self._path}actions/{action}/", body,
                                                 may_repeat=may_repeat))
        return self

    @property
    def _path(self) -> str:
        return f"experiments/{self.id}/"


def segment(name: str) -> str:
    """An id as a part of a path. Raises NotFound for what is none."""
    if not name or not all(char.isascii() and (char.isalnum() or char in "-_") for char in name):
        raise NotFound(404, [FieldError("", f"{shown(name)} is not an id.")])
    return name


class Trial:
    """One trial. ``document``: everything that REST tells of it."""

    def __init__(self, client: Transport, document: Mapping[str, Any]) -> None:
        self._client = client
        self.document: dict[str, Any] = dict(document)

    def __repr__(self) -> str:
        return f"<Trial {self.number} ({self.id}): {self.status}>"

    @property
    def id(self) -> str:
        return str(self.document["id"])

    @property
    def number(self) -> int:
        """Its place in its experiment, from 0."""
        return int(self.document["sequence_id"])

    @property
    def status(self) -> str:
        return str(self.document["status"])

    @property
    def parameters(self) -> Any:
        return self.document["parameters"]

    @property
    def final_value(self) -> Any:
        """What it reported in the end; None before that."""
        return value_of(self.document["final_value"])

    @property
    def final_number(self) -> float | None:
        """The number in it that the tuner uses."""
        number: float | None = self.document["final_number"]
        return number

    def refresh(self) -> Self:
        self.document = dict(self._client.get(f"trials/{self.id}/"))
        return self

    def metrics(self) -> Records:
        """All that it reported, in order, with times and attempts."""
        return Records({**row, "value": value_of(row["value"])}
                       for row in self._client.get_all(f"trials/{self.id}/metrics/"))

    def output(self, stream: str = "stdout") -> str:
        """What its last attempt wrote to ``stdout`` or ``stderr``, as far as it has arrived."""
        offset, parts = 0, []
        attempt: int | None = None  # the one that is the last at the beginning: a next one begins at 0 anew
        while True:
            part = self._client.get(f"trials/{self.id}/output/", stream=stream, offset=offset, limit=1024 * 1024,
                                    attempt=attempt)
            attempt = int(part["attempt"]) or None
            parts.append(str(part["text"]))
            if part["next_offset"] <= offset:
                return "".join(parts)
            offset = part["next_offset"]

    def variant(self) -> dict[str, Any] | None:
        """What it changes in its experiment's code: ``diff``, ``changed_files``, ``sha256`` and more; None: nothing."""
        return dict(self._client.get(f"trials/{self.id}/variant/")) if self.document.get("variant") else None

    def stop(self) -> Self:
        """End it. Harmless on an ended one."""
        self.document = dict(self._client.change("POST", f"trials/{self.id}/actions/cancel/", may_repeat=True))
        return self

    def freeze(self) -> Self:
        """Have it save a checkpoint and end, to go on from there after ``thaw``. Raises Conflict."""
        self.document = dict(self._client.change("POST", f"trials/{self.id}/actions/freeze/", may_repeat=True))
        return self

    def thaw(self) -> Self:
        """Have it go on. Harmless where it is not frozen."""
        self.document = dict(self._client.change("POST", f"trials/{self.id}/actions/thaw/", may_repeat=True))
        return self

    def ask_platform(self) -> Self:
        """Have its platform asked about its job now; ``refresh`` shows what it said when
        ``document["refresh"]["answered_at"]`` is set anew. Raises Conflict where it has no job there.
        """
        self.document = dict(self._client.change("POST", f"trials/{self.id}/actions/refresh/", may_repeat=True))
        return self

    # --- kept files ------------------------------------------------------------------------------------------

    def files(self) -> Records:
        """The files that were kept of it (``keepFiles``): ``id``, ``attempt``, ``name``, ``size`` in bytes."""
        return Records(self._client.get_all(f"trials/{self.id}/files/"))

    def download(self, name: str, target: str | os.PathLike[str]) -> Path:
        """Write a kept file of the last attempt that has it to ``target`` (a file, or a folder that is there).

        The file appears whole or not at all. Returns its path. Raises NotFound, and ClientError where it cannot be
        written.
        """
        kept = [file for file in self.files() if file["name"] == name]
        if not kept:
            raise NotFound(404, [FieldError("", f"Trial {self.number} has no kept file {name}.")])
        return self._written(f"trials/{self.id}/files/{kept[-1]['id']}/", name, target)

    # --- what is on its machine ------------------------------------------------------------------------------

    def output_files(self) -> Records:
        """What its last attempt wrote into NNI_OUTPUT_DIR, on its machine: ``name``, ``size``, ``modified_at``.

        Sizes are bytes; at most some thousand files. Raises Conflict where the server cannot look there, and NotFound
        where there is nothing (any more). While the machine is away it is asked again, for the client's patience.
        """
        return Records(self._client.get(f"trials/{self.id}/output-files/")["files"])

    def download_output(self, name: str, target: str | os.PathLike[str]) -> Path:
        """Write one of them to ``target``, as ``download`` does. Raises what ``output_files`` and ``download`` do."""
        return self._written(f"trials/{self.id}/output-files/content/", name, target, {"name": name})

    def _written(self, address: str, name: str, target: str | os.PathLike[str],
                 query: Mapping[str, str] = {}) -> Path:
        path = Path(target)
        path = path / Path(name).name if path.is_dir() else path
        write_whole(path, self._client.stream(address, **query))
        return path
