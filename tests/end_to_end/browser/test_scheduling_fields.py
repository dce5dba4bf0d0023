"""Where and when Kubernetes runs trials is said in forms: of an experiment, and of a cluster with its permissions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import expect

from tests.end_to_end.browser.conftest import PATIENCE
from tests.end_to_end.running_server import RunningServer
from tests.fakes.kubernetes.api import KubernetesApiDouble

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApiDouble]:
    with KubernetesApiDouble(tmp_path_factory.mktemp("kubernetes")) as double:
        double.controllers.admission.priority_classes.add("low")
        yield double


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, double: KubernetesApiDouble) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("server") / "data")
    try:
        running.start().post("clusters/", {"name": "farm", "platform": "kubernetes", "settings": {
            "kubeconfig": str(double.kubeconfig)}})
        yield running
    finally:
        running.close()


def row(page, name: str):
    """The control of a field."""
    return page.get_by_label(re.compile(rf"^{name}( \(.*\))?$")).first


@pytest.mark.slow
def test_an_experiment_on_a_platform_of_its_own_says_where_its_pods_run(server, open_page) -> None:
    page = open_page(server, "/new/?way=fields", height=3200)
    page.get_by_label("Platform of its own").select_option("kubernetes")
    text = page.get_by_label("Experiment file")
    expect(text).to_have_value(re.compile("platform: kubernetes"))
    for name, value in (("Labels", "team=vision"), ("Priority class name", "low"), ("Kueue queue name", "team-a")):
        row(page, name).fill(value)
        row(page, name).blur()
        expect(text).to_have_value(re.compile(value.replace("=", ": ")))
    page.get_by_role("button", name="Add toleration").click()
    row(page, "Operator").select_option("Exists")
    expect(text).to_have_value(re.compile("operator: Exists"))
    section = yaml.safe_load(text.input_value())["trainingService"]
    assert {name: section[name] for name in ("labels", "priorityClassName", "kueueQueueName", "tolerations")} == {
        "labels": {"team": "vision"}, "priorityClassName": "low", "kueueQueueName": "team-a",
        "tolerations": [{"operator": "Exists"}]}


@pytest.mark.slow
def test_an_experiment_on_a_cluster_that_is_set_up_has_the_fields_of_its_trials(server, open_page) -> None:
    page = open_page(server, "/new/?way=fields", height=2600)
    page.get_by_label("Cluster", exact=True).select_option("farm")
    text = page.get_by_label("Experiment file")
    expect(text).to_have_value(re.compile("cluster: farm"))
    row(page, "Priority class name").fill("low")
    row(page, "Priority class name").blur()
    expect(text).to_have_value(re.compile("priorityClassName: low"))
    document = yaml.safe_load(text.input_value())
    assert (document["cluster"], document["trialOptions"]) == ("farm", {"priorityClassName": "low"})
    expect(page.get_by_label("Kubeconfig")).to_have_count(0)
    row(page, "Priority class name").fill("")
    row(page, "Priority class name").blur()
    expect(text).not_to_have_value(re.compile("trialOptions"))


@pytest.mark.slow
def test_a_cluster_says_in_its_form_what_members_may_use(server, open_page, double) -> None:
    [made] = [one for one in server.get("clusters/")["results"] if one["name"] == "farm"]
    page = open_page(server, f"/clusters/{made['id']}/edit/", height=2600)
    expect(page.locator("#cluster-form[data-state=ready]")).to_be_visible()
    for summary in page.locator("#cluster-form details > summary:visible").all():
        summary.click()
    page.get_by_role("button", name="Add members may use").click()
    row(page, "Priority classes").fill("low\nnormal")
    row(page, "Priority classes").blur()
    page.get_by_role("button", name="Save", exact=False).first.click()
    page.wait_for_url(f"**/clusters/{made['id']}/")
    settings = server.get(f"clusters/{made['id']}/")["settings"]
    assert settings["membersMayUse"]["priorityClasses"] == ["low", "normal"]
    assert Path(settings["kubeconfig"]) == double.kubeconfig
