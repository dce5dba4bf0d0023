"""What is shown of a cluster, and that pages hear of it."""

from nniweb.experiments import doorbell
from nniweb.experiments.models import Cluster, Machine
from trainingservice.base import MachineDetail


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
