"""Trials on a machine's own cluster wait for the worker of that machine; a worker elsewhere leaves them alone."""

from __future__ import annotations

import socket
from pathlib import Path
from random import Random

import pytest
import requests

from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.scaled_out.postgresql_server import PASSWORD
from tests.end_to_end.scaled_out.several_processes import Installation, WebProcess


def page_of(web: WebProcess, experiment: str) -> str:
    """The experiment's page as its owner sees it."""
    session = requests.Session()
    session.get(f"{web.url}/sign-in/")
    session.post(f"{web.url}/sign-in/", {"username": "admin", "password": PASSWORD,
                                         "csrfmiddlewaretoken": session.cookies["csrftoken"]})
    return session.get(f"{web.url}/experiments/{experiment}/").text


@pytest.mark.timeout(300)
@pytest.mark.slow
@pytest.mark.kill_table("the worker of a host goes while local trials run there, and another host's worker stays")
def test_local_trials_wait_for_the_worker_of_their_host_and_are_told_so(installation: Installation,
                                                                       tmp_path: Path, seed: int) -> None:
    web, here = installation.web("web").start(), installation.worker("here").start()
    experiment = WitnessedExperiment(web, tmp_path / "experiment", trials=2, concurrency=1, steps=200, pause=0.05,
                                     go=tmp_path / "go").launch()
    abroad = installation.worker("abroad", host="elsewhere").start()
    installation.worker_id(abroad)
    some = Random(seed).randint(1, 60)
    web.wait_until(lambda: experiment.reported() >= some, what="the first trial reports")
    here.kill()
    sentence = f"The worker on host {socket.gethostname()} is not running, and only it can run trials on local."

    def message() -> str:
        return str(web.get(f"experiments/{experiment.id}/")["message"])

    web.wait_until(lambda: sentence in message(), what="it is said why nothing goes on")
    assert sentence in page_of(web, experiment.id)
    # the trial itself goes on, and so do its reports
    web.wait_until(lambda: [row["intermediate_count"] for row in experiment.rows()] == [200], what="its results arrive")
    assert len(experiment.running()) == 1
    assert "this worker runs its trials now" not in abroad.log(), "the cluster is none of its business"
    here.start()
    (tmp_path / "go").touch()
    experiment.nothing_is_lost()
    assert sentence not in message()
