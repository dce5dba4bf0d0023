"""What a tuner was asked and told by a real server, and what a new one of the same seed proposes after the same."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from nniweb.tuning.process.experiment_tuning import ExperimentTuning
from tests.end_to_end.running_server import RunningServer

Event = dict[str, Any]


def tuner_events(server: RunningServer, experiment: str) -> list[Event]:
    """Questions and results, in the order of the record."""
    with closing(sqlite3.connect(f"file:{server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)) as database:
        return [json.loads(row) for (row,) in database.execute(
            "SELECT data FROM experiments_tunerevent WHERE experiment_id = "
            "(SELECT id FROM experiments_experiment WHERE public_id = ?) ORDER BY number", [experiment])]


def assert_proposals_follow(events: Sequence[Event], settings: Mapping[str, Any], *, at_once: int) -> None:
    """Each proposal is that of a new tuner with these settings (of ``ExperimentTuning``) after the events before it."""
    for place, event in enumerate(events):
        if event["event"] == "ask":
            assert event["parameters"] in _proposed(events[:place], event["number"], settings, at_once), event["number"]


def _proposed(before: Sequence[Event], number: int, settings: Mapping[str, Any], at_once: int
              ) -> Iterator[dict[str, Any]]:
    """A result that is recorded while the tuner is at work is told to it after its answer, and stands before that
    answer in the record: also without the last few of them.
    """
    told = [place for place, event in enumerate(before) if event["event"] == "tell"]
    for count in range(min(len(told), at_once) + 1):
        left_out = set(told[len(told) - count:])
        tuning = ExperimentTuning(settings)
        tuning.restore(event for place, event in enumerate(before) if place not in left_out)
        yield tuning.ask(number, 1)["parameters"][0]
