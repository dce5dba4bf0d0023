"""Trials on a machine's own cluster wait for the worker of that machine; a worker elsewhere leaves them alone."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import requests

from tests.end_to_end.scaled_out.gated_trials import GatedTrials
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
    gated = GatedTrials(tmp_path / "experiment")
    experiment = web.launch(gated.config({"platform": "local"}, trials=2, trialConcurrency=1), gated.code)
    web.wait_until(lambda: gated.starts(), what="the first trial runs")
    abroad = installation.worker("abroad", host="elsewhere").start()
    installation.worker_id(abroad)
    here.kill()
    sentence = f"The worker on host {socket.gethostname()} is away, and only it can run trials on local."

    def message() -> str:
        return str(web.get(f"experiments/{experiment}/")["message"])

    web.wait_until(lambda: sentence in message(), what="it is said why nothing goes on")
    assert sentence in page_of(web, experiment)
    gated.step(0)  # the trial itself goes on, and so do its reports
    [trial] = web.get_all(f"experiments/{experiment}/trials/")
    web.wait_until(lambda: web.get(f"trials/{trial['id']}/")["intermediate_count"] == 1, what="its result arrives")
    assert web.get(f"trials/{trial['id']}/")["status"] == "RUNNING"
    assert "this worker drives it now" not in abroad.log(), "the cluster is none of its business"
    here.start()
    gated.let_go()
    web.wait_for_experiment(experiment)
    trials = web.get_all(f"experiments/{experiment}/trials/")
    assert [row["status"] for row in trials] == ["SUCCEEDED"] * 2
    assert gated.starts() == sorted(row["id"] for row in trials)
    assert sentence not in message()
