"""What is shown of a cluster, and that pages hear of it."""

from nniweb.experiments.models import Cluster, Machine, User
from nniweb.experiments.models.account import Role
from nniweb.experiments.pubsub import doorbell
from trainingservice.base import MachineDetail
from trainingservice.machine_load import MachineLoad
from trainingservice.reasons import Reason
from trainingservice.rest.rest_client import LogInRefused


def test_machines_are_shown_and_pages_of_the_experiments_on_them_look_again(rig, monkeypatch) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    rig.submitted(experiment, 1)
    gpus = ({"index": 0, "utilization": 5},)
    monkeypatch.setattr(rig.service, "list_machines", lambda: [MachineDetail("box", "id-1", gpus=gpus)])
    with doorbell.listening() as listener:
        rig.skip(3)
        rig.rounds(1)
        assert experiment.pk in listener.wait(0)
        rig.skip(3)
        rig.rounds(1)
        assert listener.wait(0) == set(), "nothing has changed"
    machine = Machine.objects.get()
    assert (machine.name, machine.identity, machine.gpu_summary) == ("box", "id-1", [{"index": 0, "utilization": 5}])
    monkeypatch.setattr(rig.service, "list_machines", list)
    rig.skip(3)
    rig.rounds(1)
    assert not Machine.objects.exists()
    assert Cluster.objects.get(pk=rig.cluster.pk).health == "good"


def test_loads_are_written_every_ten_seconds_and_no_page_of_an_experiment_looks_again(rig, monkeypatch) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    rig.submitted(experiment, 1)
    used = iter(range(1, 100))
    monkeypatch.setattr(rig.service, "list_machines", lambda: [
        MachineDetail("box", "id-1", load=MachineLoad(next(used), 100.0, 1000, 64000)), MachineDetail("other", "id-2")])
    rig.skip(3)
    rig.rounds(1)
    written = {machine.name: machine.load for machine in Machine.objects.all()}
    assert written == {"box": {"cpu_used": 1.0, "cpu_total": 100.0, "memory_used": 1000, "memory_total": 64000},
                       "other": None}
    with doorbell.listening() as listener:
        rig.skip(3)
        rig.rounds(1)
        assert Machine.objects.get(name="box").load["cpu_used"] == 1.0, "it was written three seconds ago"
        rig.skip(8)
        rig.rounds(1)
        assert Machine.objects.get(name="box").load["cpu_used"] == 3.0
        assert listener.wait(0) == set()


def test_a_load_that_stays_is_written_each_minute_and_one_that_is_not_known_any_more_is_taken_away(
        rig, monkeypatch) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    rig.submitted(experiment, 1)
    load: MachineLoad | None = MachineLoad(1.0, 4.0, 1000, 64000)
    monkeypatch.setattr(rig.service, "list_machines", lambda: [MachineDetail("box", "id-1", load=load)])
    rig.skip(3)
    rig.rounds(1)
    first = Machine.objects.get().seen_at
    rig.skip(20)
    rig.rounds(1)
    assert Machine.objects.get().seen_at == first
    rig.skip(41)
    rig.rounds(1)
    assert Machine.objects.get().seen_at > first
    load = None
    rig.skip(11)
    rig.rounds(1)
    assert Machine.objects.get().load is None


def test_what_keeps_a_platform_from_working_is_shown_on_its_cluster(rig, monkeypatch) -> None:
    experiment = rig.experiment(trial_concurrency=1)
    rig.submitted(experiment, 1)
    monkeypatch.setattr(type(rig.service), "trouble", "The token ran out; make a new one.")
    rig.skip(3)
    rig.rounds(1)
    cluster = Cluster.objects.get(pk=rig.cluster.pk)
    assert (cluster.health, cluster.message) == ("away", "The token ran out; make a new one.")
    monkeypatch.setattr(type(rig.service), "trouble", "")
    rig.skip(3)
    rig.rounds(1)
    assert Cluster.objects.get(pk=rig.cluster.pk).health == "good"


def test_why_a_cluster_is_away_has_a_code_in_its_row_and_over_rest(rig, monkeypatch, client) -> None:
    rig.submitted(rig.experiment(trial_concurrency=1), 1)
    monkeypatch.setattr(type(rig.service), "trouble", LogInRefused("The token ran out; make a new one.").reason)
    there = [MachineDetail("box", "id-1", healthy=False, message=Reason("unreachable", said="No answer.")),
             MachineDetail("other", "id-2", message="A plug-in's own words."), MachineDetail("third", "id-3")]
    monkeypatch.setattr(rig.service, "list_machines", lambda: there)
    rig.skip(3)
    rig.rounds(1)
    client.force_login(User.objects.create_superuser("grace", role=Role.ADMIN))
    told = client.get(f"/api/v1/clusters/{rig.cluster.public_id}/").json()
    assert told["reason"] == {"code": "log_in_refused", "said": "The token ran out; make a new one."}
    assert [(machine["message"], machine["reason"]) for machine in told["machines"]] == [
        ("No answer.", {"code": "unreachable", "said": "No answer."}),
        ("A plug-in's own words.", {"code": "platform"}), ("", None)]


def test_a_cluster_whose_machines_are_not_well_is_not_good(rig, monkeypatch) -> None:
    rig.submitted(rig.experiment(trial_concurrency=1), 1)

    def seen(*messages: str) -> tuple[str, str, str]:
        machines = [MachineDetail(f"box{number}", f"id-{number}", healthy=not message, message=message)
                    for number, message in enumerate(messages)]
        monkeypatch.setattr(rig.service, "list_machines", lambda: machines)
        rig.skip(3)
        rig.rounds(1)
        cluster = Cluster.objects.get(pk=rig.cluster.pk)
        return cluster.health, cluster.reason, cluster.message

    refused = Reason("connection_refused", said="box refuses connections; start its sshd.")
    key = Reason("log_in_refused", said="box refuses the log-in; correct password.")
    connects = Reason("machine_connects", said="The server is connecting to it.")
    assert seen(connects, "") == ("good", "", "")
    assert seen(refused, "", connects) == ("degraded", "some_machines", (
        "1 of 3 machines cannot be used (box0: box refuses connections; start its sshd)."))
    assert seen(refused, refused) == ("away", "every_machine", (
        "Every machine refuses connections (box0: box refuses connections; start its sshd; "
        "box1: box refuses connections; start its sshd)."))
    health, _, message = seen(refused, key)
    assert (health, message[:26]) == ("away", "No machine can be used (bo")
    assert seen(key, key)[0] == "bad"
    assert seen("A plug-in's own words.")[2] == "No machine can be used (box0: A plug-in's own words)."
    _, _, message = seen(*[refused] * 7)
    assert message.endswith("; and 2 more).")
    assert seen("") == ("good", "", "")


def test_the_way_home_that_a_machine_uses_now_is_on_its_page_and_in_the_answer(rig, monkeypatch, client) -> None:
    rig.submitted(rig.experiment(trial_concurrency=1), 1)
    client.force_login(User.objects.create_superuser("grace", role=Role.ADMIN))
    for way, words in (("direct", "Reports directly to this server."), ("relay", "Reports via SSH tunnel."),
                       ("files", "Reports by files over SFTP.")):
        found = MachineDetail("box", "id-1", message="Its key was seen at first contact.", agent_state="running",
                              way_home=way)
        monkeypatch.setattr(rig.service, "list_machines", lambda found=found: [found])
        rig.skip(3)
        rig.rounds(1)
        answer = client.get(f"/api/v1/clusters/{rig.cluster.public_id}/").json()
        assert [machine["way_home"] for machine in answer["machines"]] == [way]
        page = client.get(f"/clusters/{rig.cluster.public_id}/").content.decode()
        assert words in page
        assert "Its key was seen at first contact." in page
