"""Every "why" leads to what it means."""

import re

import pytest
from django.test import Client

from nniweb.dashboard.reference.reasons import address_of
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.models import Cluster, Trial
from trainingservice.reasons import CODES, OTHER, PLATFORM, Reason


@pytest.fixture
def browser(admin) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def test_every_code_leads_to_an_anchor_that_is_there_once(browser) -> None:
    html = browser.get("/reasons/").content.decode()
    anchors = re.findall(r'<div id="(\w+)"><dt>', html)
    assert sorted(anchors) == sorted(CODES)
    assert {address_of(code) for code in CODES} == {f"/reasons/#{anchor}" for anchor in anchors}
    assert [address_of(code) for code in (PLATFORM, OTHER, "", "of a later version")] == [""] * 4


def test_the_why_of_a_trial_an_experiment_and_a_cluster_leads_there(browser, make_experiment, make_attempt) -> None:
    experiment = make_experiment(status="ERROR", **said(Reason("tuner_failed", error="It broke.")))
    attempt = make_attempt(experiment, status="FAILED")
    Trial.objects.filter(pk=attempt.trial_id).update(**said(Reason("exit_code", exit_code=2)))
    Cluster.objects.filter(pk=experiment.cluster_id).update(
        health="bad", **said(Reason("unreachable", said="Nobody answers.")))
    for address, code in ((f"/trials/{attempt.trial.public_id}/", "exit_code"),
                          (f"/experiments/{experiment.public_id}/", "tuner_failed"),
                          (f"/clusters/{experiment.cluster.public_id}/", "unreachable")):
        assert f'href="/reasons/#{code}"' in browser.get(address).content.decode(), address
    Trial.objects.filter(pk=attempt.trial_id).update(**said("Words of somebody else."))
    html = browser.get(f"/trials/{attempt.trial.public_id}/").content.decode()
    assert re.search(r'<a [^>]*id="why-means"[^>]* hidden>', html)
