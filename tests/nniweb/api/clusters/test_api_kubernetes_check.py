"""The check of a cluster of Kubernetes by REST starts a real test pod, with what trials there ask for."""

from nniweb.experiments.models import Cluster
from tests.fakes.kubernetes.api import KubernetesApiDouble


def test_a_check_tries_the_image_of_the_last_experiment(api, make_experiment, tmp_path) -> None:
    with KubernetesApiDouble(tmp_path / "cluster") as double:
        made = api.post("/api/v1/clusters/", {"name": "farm", "platform": "kubernetes",
                                              "settings": {"kubeconfig": str(double.kubeconfig)}})
        assert made.status_code == 201, made.content
        cluster = Cluster.objects.get(name="farm")
        make_experiment(cluster=cluster, trial_gpu_number=3, trial_options={
            "worker": {"dockerImage": "example/trial:7", "python": "no-such-python"}})
        taken = []
        double.node.when_taken = taken.append
        found = {row["check"]: row for row in
                 api.post(f"/api/v1/clusters/{cluster.public_id}/actions/rehearse/").json()}
    assert [pod["spec"]["containers"][0]["image"] for pod in taken] == ["example/trial:7"]
    assert "A test pod with image example/trial:7 failed" in found["trial"]["message"]
    assert not found["trial"]["ok"]
    assert "asks for 3 nvidia.com/gpu" in found["gpus"]["message"]
