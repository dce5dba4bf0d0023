"""Where retention removed something, pages and REST say so; and it can be changed."""

from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.models import Attempt, Experiment, Trial, User
from nniweb.experiments.retention.policy import NOTHING_THERE


def test_a_trials_page_says_what_was_removed_and_when_in_place_of_an_empty_box(
        make_attempt: Callable[..., Attempt], admin: User) -> None:
    ended = timezone.now() - timedelta(days=40)
    trial = make_attempt(status="SUCCEEDED", ended_at=ended).trial
    removed = ended + timedelta(days=30, hours=1)
    Trial.objects.filter(pk=trial.pk).update(output_removed_at=removed, readings_removed_at=removed,
                                             files_removed_at=NOTHING_THERE)
    client = APIClient()
    client.force_login(admin)
    page = client.get(f"/trials/{trial.public_id}/").content.decode()
    assert f"The output of the trial was removed by retention on {removed:%Y-%m-%d}, 30 days after the end." in page
    assert "intermediate results and resource samples were removed by retention" in page
    assert "Nothing written." not in page
    assert "kept files were removed" not in page
    document = client.get(f"/api/v1/trials/{trial.public_id}/").json()
    assert document["removed"]["files"] is None
    assert document["removed"]["output"].startswith(f"{removed:%Y-%m-%d}")
    series = client.get(f"/api/v1/experiments/{trial.experiment.public_id}/series/?trials={trial.public_id}").json()
    assert series["trials"][0]["removed_at"] == document["removed"]["readings"]


def test_retention_is_changed_over_rest_listed_and_shown(
        make_experiment: Callable[..., Experiment], admin: User) -> None:
    experiment = make_experiment(status="DONE", next_sequence_id=10, look_after_at=timezone.now())
    client = APIClient()
    client.force_login(admin)
    address = f"/api/v1/experiments/{experiment.public_id}/"
    for wrong in ({"output": 0}, {"output": "later"}, {"output": True}, {"outptu": 3}, 5,
                  {"jobs": 0}, {"jobs": "later"}, {"output": "saved"}):
        assert client.patch(address, {"retention": wrong}, format="json").status_code == 400, wrong
    assert client.get(address).json()["jobs_kept"] == "saved"
    given = {"output": 7, "code": "forever", "files": None, "jobs": 3}
    answer = client.patch(address, {"retention": given}, format="json")
    assert answer.status_code == 200, answer.content
    assert answer.json()["retention"] == {**given, "readings": None}
    assert answer.json()["jobs_kept"] == 3
    assert answer.json()["days_kept"] == {"output": 7, "readings": None, "files": None, "code": None}
    experiment.refresh_from_db()
    assert (experiment.retention, experiment.look_after_at) == ({"output": 7, "code": "forever", "jobs": 3}, None)
    assert experiment.jobs_due_at is not None
    changes = client.get(f"{address}changes/").json()["results"][0]["values"]
    assert {"what": "retention.output", "before": "as the server's", "after": "7 days"} in changes
    page = client.get(f"/experiments/{experiment.public_id}/config/").content.decode()
    assert "<dd>7 days</dd>" in page
    assert 'name="output" value="7"' in page
    assert "<dt>Ended jobs on Kubernetes</dt><dd>3 days</dd>" in page
    assert client.post(f"{address}changes/1/actions/undo/").json()["retention"]["output"] is None
