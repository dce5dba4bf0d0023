"""Nothing of an experiment or a private cluster is in an answer to somebody who may not see it, whatever is asked."""

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import Client
from django.utils import timezone

from nniweb.experiments.actions.intents import write_note
from nniweb.experiments.models import Attempt, Cluster, Experiment, Machine, Trial, User
from tests.nniweb.access.every_address import of_django
from tests.nniweb.access.roles import World

#: A word in each field that people fill in, so that it says where it came from.
WORDS = ("zq-name", "zq-description", "zq-tag", "zq-message", "zq-parameter", "zq-command", "zq-folder", "zq-cluster",
         "zq-machine", "zq-notes", "zq-trial-tag", "zq-job")
LOOK = 'trials={trial}&selected={trial}&compare={trial}&clone={experiment}&cluster={cluster}&q=zq&tag=zq-tag&' \
       'filter=status%20%3D%20RUNNING&group=none&start_from={experiment}&experiment={experiment}&owner=member&user=member'


@pytest.fixture
def hidden(world: World) -> dict[str, str]:
    """The world's experiment is its owner's alone, on a private cluster. Ids that somebody else may have heard of."""
    member, trial = world.people["member"], world.attempt.trial
    experiment = trial.experiment
    Experiment.objects.filter(pk=experiment.pk).update(
        name="zq-name", description="zq-description", tags=["zq-tag"], message="zq-message", group=None,
        search_space={"zq-parameter": {"_type": "uniform", "_value": [0, 1]}}, trial_command="zq-command",
        code_folder="/zq-folder", status="RUNNING")
    write_note(trial, "zq-notes", member)  # type: ignore[arg-type]  # there is one
    Trial.objects.filter(pk=trial.pk).update(tags=["zq-trial-tag"], status="RUNNING",
                                             message="zq-message", started_at=timezone.now())
    Attempt.objects.filter(pk=world.attempt.pk).update(machine_name="zq-machine", machine_identity="m", gpu_indices=[0])
    Cluster.objects.filter(pk=experiment.cluster_id).update(name="zq-cluster", owner=member, is_private=True,
                                                            message="zq-message")
    Machine.objects.create(cluster=experiment.cluster, name="zq-machine", identity="m", gpu_summary=[{"index": 0}],
                           seen_at=timezone.now())
    return {"experiment": experiment.public_id, "trial": trial.public_id, "cluster": experiment.cluster.public_id,
            "zq-job": world.attempt.job_name}


@pytest.fixture
def own(make_experiment: Any, make_attempt: Any, world: World) -> Trial:
    """The stranger's own experiment, on a cluster for everybody which has the same machine."""
    cluster = Cluster.objects.create(name="for all", platform="remote", settings={})
    Machine.objects.create(cluster=cluster, name="box", identity="m", gpu_summary=[{"index": 0}],
                           seen_at=timezone.now())
    trial: Trial = make_attempt(make_experiment(owner=world.people["stranger"], cluster=cluster)).trial
    return trial


def signed_in(person: User | None) -> Client:
    client = Client(raise_request_exception=False)
    if person is not None:
        client.force_login(person)
    return client


@async_to_sync
async def streamed(answer: Any) -> bytes:
    return b"".join([piece async for piece in answer.streaming_content])


def told(answer: Any, hidden: dict[str, str], asked: str) -> list[str]:
    content = answer.content if not answer.streaming else streamed(answer) if answer.is_async else \
        b"".join(answer.streaming_content)
    text = content.decode("utf-8", "replace")
    return [word for word in (*WORDS, hidden["zq-job"]) if word in text and word not in asked]


@pytest.mark.timeout(400)  # some thousand requests
@pytest.mark.parametrize("role", ["anonymous", "stranger", "viewer"])
def test_no_address_tells_anything_of_what_is_hidden(world: World, hidden: dict[str, str], own: Trial, role: str
                                                     ) -> None:
    client = signed_in(world.people[role])
    look = LOOK.format(**hidden)
    found = {}
    for call in of_django():
        if call.method != "GET":
            continue
        address = world.path(call.address)
        mine = address.replace(hidden["experiment"], own.experiment.public_id).replace(
            hidden["trial"], own.public_id).replace(hidden["cluster"], own.experiment.cluster.public_id)
        for asked in dict.fromkeys((address, f"{address}?{look}", f"{mine}?{look}")):
            with transaction.atomic():
                answer = client.get(asked)
                words = told(answer, hidden, asked)
                transaction.set_rollback(True)
            if words or answer.status_code >= 500:
                found[asked] = (answer.status_code, words)
    assert found == {}


def test_the_owner_is_told_so_that_the_words_can_be_found(world: World, hidden: dict[str, str]) -> None:
    client = signed_in(world.people["member"])
    pages = ("/", f"/experiments/{hidden['experiment']}/", f"/experiments/{hidden['experiment']}/trials/", "/clusters/",
             f"/experiments/{hidden['experiment']}/config/", f"/trials/{hidden['trial']}/",
             f"/api/v1/experiments/{hidden['experiment']}/", f"/api/v1/trials/{hidden['trial']}/")
    seen = {word for page in pages for word in told(client.get(page), hidden, page)}
    assert seen >= {*WORDS} - {"zq-job"}


#: What a stranger may try from an experiment of their own, with ids of what is hidden. {own...} are theirs.
TRIES: list[tuple[str, str, Any]] = [
    ("POST", "experiments/{own}/trials/actions/stop/", {"trials": ["{trial}"]}),
    ("POST", "experiments/{own}/trials/actions/rerun/", {"trials": ["{trial}"]}),
    ("POST", "experiments/{own}/trials/actions/freeze/", {"trials": ["{trial}"]}),
    ("POST", "experiments/{own}/trials/actions/tag/", {"trials": ["{trial}"], "add": ["mine"]}),
    ("POST", "experiments/{own}/tensorboards/", {"trials": ["{trial}"]}),
    ("POST", "notifications/", {"channel": "webhook", "url": "https://hook.example/", "experiment": "{experiment}"}),
    ("PATCH", "experiments/{own}/", {"group": "ours"}),
    ("PATCH", "experiments/{own}/", {"owner": "member"}),
    ("POST", "experiments/", {"config": "{config}\ncluster: zq-cluster"}),
    ("POST", "experiments/", {"config": "{config}", "group": "ours"}),
    ("POST", "experiments/check/", {"config": "{config}\ncluster: zq-cluster"}),
    ("PATCH", "clusters/{own_cluster}/", {"name": "mine"}),
    ("PATCH", "clusters/{own_cluster}/", {"enabled": False}),
    ("PATCH", "clusters/{own_cluster}/", {"owner": "stranger"}),
    ("PATCH", "clusters/{own_cluster}/", {"settings": {"machineList": []}}),
    ("DELETE", "clusters/{own_cluster}/", {}),
    ("POST", "clusters/", {"name": "new", "platform": "local"}),
    ("POST", "clusters/check/", {"platform": "remote", "settings": {"machineList": [{"host": "127.0.0.1"}]}}),
    ("PUT", "clusters/{own_cluster}/metadata/host_keys/", {"value": "x"}),
    ("PATCH", "users/{me}/", {"role": "admin"}),
    ("PATCH", "users/{member}/", {"is_active": False}),
    ("POST", "users/", {"username": "eve", "role": "admin"}),
    ("POST", "users/{member}/actions/sign-in-link/", {}),
    ("PATCH", "groups/{group}/", {"members": ["stranger"]}),
    ("POST", "groups/", {"name": "new"}),
    ("POST", "quotas/", {"user": "stranger", "max_trials": 1000}),
    ("POST", "budgets/", {"user": "stranger", "trials": 1000}),
    ("GET", "budgets/?experiment={experiment}", {}),
    ("POST", "prices/", {"cluster": "zq-cluster", "gpu_hour": 0}),
    ("POST", "tokens/", {"name": "x", "user": "member"}),
    ("POST", "tokens/", {"name": "x", "scope": "admin"}),
    ("DELETE", "tokens/{token}/", {}),
    ("GET", "trials/named/?jobs={zq-job}", {}),
    ("GET", "experiments/{experiment}/clone/", {}),
    ("GET", "usage/?cluster={cluster}", {}),
]


@pytest.mark.parametrize("role", ["stranger", "viewer"])
@pytest.mark.parametrize("number", range(len(TRIES)), ids=lambda number: f"{TRIES[number][1]}-{number}")
def test_ids_of_what_is_hidden_are_of_no_use_in_what_one_sends(
        world: World, hidden: dict[str, str], own: Trial, role: str, number: int) -> None:
    method, address, body = TRIES[number]
    me: User = world.people[role]  # type: ignore[assignment]  # there is one
    config = "searchSpace: {x: {_type: uniform, _value: [0, 1]}}\ntrialCommand: 'true'\ntuner: {name: Random}\n" \
             "trialConcurrency: 1\nmaxTrialNumber: 1"
    values = {**hidden, "own": own.experiment.public_id, "own_cluster": own.experiment.cluster.public_id, "me": me.pk,
              "member": world.ids["user_id"], "group": world.ids["group_id"], "token": world.ids["token_id"]}

    def filled(text: str) -> str:
        for name, value in {**values, "config": config}.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    sent = json.loads(json.dumps(body), object_hook=lambda found: {key: ([filled(one) if isinstance(one, str) else one
                      for one in value] if isinstance(value, list) else filled(value) if isinstance(value, str)
                      else value) for key, value in found.items()})
    before = _rows()
    path = f"/api/v1/{filled(address)}"
    answer = signed_in(me).generic(method, path, json.dumps(sent), "application/json")
    assert told(answer, hidden, path + json.dumps(sent)) == []
    done = answer.status_code < 400
    assert answer.status_code < 500
    assert not done or answer.json() == [] or answer.json()["done"] == 0, "nothing was done, and nothing found"
    if "config" in body and role == "stranger":
        assert answer.json()["errors"][0]["field"].startswith(("cluster", "group"))
    assert _rows() == before


def _rows() -> list[Any]:
    """What must not change by any of it."""
    return [list(Trial.objects.order_by("pk").values("experiment_id", "target", "tags", "status")),
            list(Experiment.objects.order_by("pk").values("owner_id", "group_id", "cluster_id", "name", "deleted_at")),
            list(Cluster.objects.order_by("pk").values("name", "enabled", "owner_id", "settings", "group_id")),
            list(User.objects.order_by("pk").values("role", "is_active", "username"))]
