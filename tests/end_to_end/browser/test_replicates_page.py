"""Proposals with replicates in a real browser: rows that open, and rows that change while they are watched."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.running_server import RunningServer

FILL = """
from django.utils import timezone
from nniweb.experiments.models import Cluster, Experiment, Proposal, Trial, TrialParameters, User
now = timezone.now()
cluster, _ = Cluster.objects.get_or_create(name="still", defaults={"platform": "local", "enabled": False})
experiment = Experiment.objects.create(
    name="repeated", cluster=cluster, owner=User.objects.first(), status="PAUSED", target="PAUSE", seed=1,
    search_space={"lr": {"_type": "uniform", "_value": [0, 1]}}, tuner={"name": "Random"}, optimize_mode="minimize",
    trial_command="true", trial_concurrency=1, max_trial_number=60, created_at=now, replicates={"n": 3})
number = 0
for place, values in enumerate([[3.0, 2.0, 2.5], [2.9], [1.0, 2.0, 1.2], [2.0], [1.9]]):
    mean = sum(values) / len(values)
    proposal = Proposal.objects.create(
        experiment=experiment, number=place, first_sequence_id=number, begun=len(values), wanted=len(values),
        state="complete" if len(values) == 3 else "dropped", value_count=len(values), mean=mean,
        standard_error=0.3 if len(values) == 3 else None)
    for replicate, value in enumerate(values):
        trial = Trial.objects.create(
            experiment=experiment, sequence_id=number, status="SUCCEEDED", taught=True, final_number=value,
            counted_value=value, proposal=proposal, replicate=replicate, seed=100 + replicate, ask_number=place,
            created_at=now, started_at=now, ended_at=now)
        TrialParameters.objects.create(trial=trial, parameter_id=place, value={"lr": place / 10})
        number += 1
Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=number)
print(experiment.public_id)
"""
#: Another replicate of the proposal of trial 3, and what it does to the mean.
GROW = """
from django.db import transaction
from django.utils import timezone
from nniweb.experiments.models import Experiment, Proposal, Trial, TrialParameters
from nniweb.experiments.pubsub.revisions import next_revision
with transaction.atomic():
    experiment = Experiment.objects.get(public_id="{experiment}")
    revision = next_revision(experiment.pk)
    proposal = Proposal.objects.get(experiment=experiment, first_sequence_id=3)
    Proposal.objects.filter(pk=proposal.pk).update(begun=2, wanted=3, state="open", value_count=2, mean=2.5,
                                                   standard_error=0.4)
    trial = Trial.objects.create(
        experiment=experiment, sequence_id=9, status="SUCCEEDED", taught=True, final_number=2.1, proposal=proposal,
        replicate=1, seed=101, created_at=timezone.now(), revision=revision)
    TrialParameters.objects.create(trial=trial, parameter_id=1, value={{"lr": 0.1}})
    Trial.objects.filter(proposal=proposal).update(revision=revision)
"""


@pytest.mark.slow
def test_a_row_of_the_table_is_a_proposal_and_opens(server: RunningServer, open_page: Callable[..., Any]) -> None:
    experiment = server.manage("shell", "-c", FILL).stdout.split()[-1]
    page = open_page(server, f"/experiments/{experiment}/trials/")
    expect(page.locator("#live")).to_have_text("● live")
    numbers = page.locator("#trials-table [data-cell=number]")
    expect(numbers).to_have_text(["8", "7", "4", "3", "0"])
    row = page.locator("#trials-table tr", has=page.get_by_role("link", name="4", exact=True))
    expect(row.locator("[data-cell=mean]")).to_have_text("1.4 ± 0.3 (3)")
    opener = row.get_by_role("button", name="3 runs")
    opener.click()
    expect(numbers).to_have_text(["8", "7", "4", "5", "6", "3", "0"])
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(page.locator("tr[data-replicate-of='4'] [data-cell=result]")).to_have_text(["2", "1.2"])
    if folder := os.environ.get("SCREENSHOTS_OF_REPLICATES"):
        page.screenshot(path=f"{folder}/trials.png")
    opener.click()
    expect(numbers).to_have_text(["8", "7", "4", "3", "0"])

    third = page.locator("#trials-table tr", has=page.get_by_role("link", name="3", exact=True))
    expect(third.locator("[data-open-replicates]")).to_be_hidden()
    server.manage("shell", "-c", GROW.format(experiment=experiment))
    expect(third.locator("[data-cell=mean]")).to_have_text("2.5 ± 0.4 (2)")
    expect(numbers).to_have_text(["8", "7", "4", "3", "0"])
    third.get_by_role("button", name="2 runs").click()
    expect(numbers).to_have_text(["8", "7", "4", "3", "9", "0"])
    page.get_by_role("link", name="Each trial in a row").click()
    expect(numbers).to_have_count(10)


@pytest.mark.slow
def test_the_overview_ranks_and_draws_means(server: RunningServer, open_page: Callable[..., Any]) -> None:
    experiment = server.manage("shell", "-c", FILL).stdout.split()[-1]
    page = open_page(server, f"/experiments/{experiment}/")
    expect(page.locator("#head [data-cell=best]")).to_have_text("1.4 ± 0.3 (3)")
    expect(page.locator("#top-trials [data-cell=number]")).to_have_text(["4", "0"])
    expect(page.locator("#top-trials [data-cell=mean]")).to_have_text(["1.4 ± 0.3 (3)", "2.5 ± 0.3 (3)"])
    expect(page.locator("#result-chart canvas")).to_be_visible()
    if folder := os.environ.get("SCREENSHOTS_OF_REPLICATES"):
        page.screenshot(path=f"{folder}/overview.png")
