"""Checkpoints over REST and on the trial's page: the list, the archive, and what is said of damage."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.files.storage import default_storage
from django.db import connection, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.documents.checkpoints import checkpoints_of_trial
from nniweb.experiments.checkpoints.chunk_files import chunk_path, manifest_path
from nniweb.experiments.downloads import checkpoint_download
from nniweb.experiments.models import Attempt, Checkpoint, CheckpointChunk, User
from nniweb.keeperapi.application import KeeperApplication
from nniweb.storage.elsewhere import StorageFailed
from tests.nniweb.keeperapi.test_checkpoint_calls import STARTED, report, retry_of, send
from trainingservice.testing.keeper_protocol import saved

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def application() -> Iterator[KeeperApplication]:
    application = KeeperApplication()
    yield application
    application.group_commit.close()


@pytest.fixture
def attempt(application: KeeperApplication, make_attempt: Callable[..., Attempt]) -> Attempt:
    """With two checkpoints; the second attempt went on from the second one."""
    attempt = make_attempt()
    first, second = send(application, attempt, b"one", name="step-1"), send(application, attempt, b"two" * 700, b"2")
    report(application, attempt, STARTED, saved(2, first, k=1, step=1, name="step-1"),
           saved(3, second, k=2, sequence=9))
    again = retry_of(attempt)
    report(application, again, STARTED, {"n": 2, "at": 1.0, "type": "checkpoint", "event": "restored", "id": second,
                                         "k": 0, "name": "step-3", "step": 3, "size": 5}, journal_id="j2")
    return attempt


def address(attempt: Attempt) -> str:
    return f"/api/v1/trials/{attempt.trial.public_id}/checkpoints/"


def test_the_list_has_the_newest_first_and_which_attempts_went_on(attempt: Attempt, admin: User, with_token) -> None:
    found = with_token(admin).get(address(attempt)).json()["results"]
    assert [(one["name"], one["step"], one["size"], one["files"], one["attempt"], one["sequence"],
             one["resumed_attempts"]) for one in found] == [
        ("step-3", 3, 2101, 2, 1, 9, [2]), ("step-1", 1, 3, 1, 1, 2, [])]


def test_one_that_is_not_confirmed_is_not_listed(application, attempt: Attempt, admin: User, with_token) -> None:
    again = attempt.trial.attempts.get(number=2)
    send(application, again, b"not confirmed")
    assert len(with_token(admin).get(address(attempt)).json()["results"]) == 2


def content_of(answer: Any) -> bytes:
    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(read)()


def download(client: APIClient, attempt: Attempt, name: str) -> bytes:
    pk = Checkpoint.objects.get(name=name).pk
    answer = client.get(f"{address(attempt)}{pk}/")
    assert answer.status_code == 200, answer.json()
    assert f'filename="{attempt.trial.public_id}-{name}.tar"' in answer["Content-Disposition"]
    return content_of(answer)


def test_a_checkpoint_is_downloaded_as_an_archive(attempt: Attempt, admin: User, client) -> None:
    client.force_login(admin)
    with tarfile.open(fileobj=io.BytesIO(download(client, attempt, "step-3"))) as archive:
        assert archive.getnames() == ["step-3/model", "step-3/model/0.bin", "step-3/model/1.bin"]
        assert archive.extractfile("step-3/model/0.bin").read() == b"two" * 700
        assert archive.getmember("step-3/model/1.bin").mode == 0o600


@pytest.mark.parametrize("kind", ["manifest", "chunk"])
def test_damage_is_told_or_cuts_the_answer_off(attempt: Attempt, admin: User, client, kind: str) -> None:
    client.force_login(admin)
    experiment_id = attempt.trial.experiment.public_id
    one = Checkpoint.objects.get(name="step-1")
    chunk = CheckpointChunk.objects.get(uses__checkpoint=one)
    default_storage.delete(manifest_path(experiment_id, one.manifest) if kind == "manifest"
                           else chunk_path(experiment_id, chunk.sha256))
    answer = client.get(f"{address(attempt)}{one.pk}/")
    if kind == "manifest":
        assert answer.status_code == 410
        assert "is missing on the server's disk" in answer.json()["errors"][0]["message"]
    else:
        with pytest.raises(Exception, match="is missing on the server's disk"):
            content_of(answer)


def test_while_the_storage_is_away_a_download_is_to_be_tried_again(attempt: Attempt, admin: User, with_token,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not gone, as one that is damaged."""
    def away(path: str, sha256: str) -> bytes:
        raise StorageFailed("The storage of files does not answer.")

    monkeypatch.setattr(checkpoint_download, "content_of", away)
    pk = Checkpoint.objects.get(name="step-3").pk
    answer = with_token(admin).get(f"{address(attempt)}{pk}/")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")
    assert "Try again in a minute" in answer.json()["errors"][0]["message"]


def test_a_removed_one_is_listed_and_not_given_out(attempt: Attempt, admin: User, client) -> None:
    client.force_login(admin)
    Checkpoint.objects.update(removed_at=timezone.now())
    [one] = client.get(address(attempt)).json()["results"]
    assert one["resumed_attempts"] == [2]
    assert one["removed_at"]
    assert client.get(f"{address(attempt)}{one['id']}/").status_code == 404


def test_the_trials_page_has_them_with_a_download(attempt: Attempt, admin: User, client) -> None:
    client.force_login(admin)
    page = client.get(f"/trials/{attempt.trial.public_id}/").content.decode()
    pk = Checkpoint.objects.get(name="step-3").pk
    assert f'href="/api/v1/trials/{attempt.trial.public_id}/checkpoints/{pk}/" download' in page
    assert "It went on from the checkpoint" in page
    assert "went on from step 3" in page, "in the table of attempts"


def test_a_trial_says_which_one_it_continues_and_a_checkpoint_which_trials_went_on(
        application, attempt: Attempt, make_attempt, admin: User, client, with_token) -> None:
    parent = attempt.trial
    child = make_attempt(parent.experiment, continues=parent)
    client.force_login(admin)
    page = client.get(f"/trials/{child.trial.public_id}/").content.decode()
    link = f'Continues <a href="/trials/{parent.public_id}/">trial {parent.sequence_id}</a>'
    assert f"{link}." in page
    report(application, child, STARTED, {
        "n": 2, "at": 1.0, "type": "checkpoint", "event": "restored", "k": 0, "name": "step-3", "step": 3, "size": 5,
        "id": Checkpoint.objects.get(name="step-3").manifest}, journal_id="j3")
    assert f"{link}, from its checkpoint." in client.get(f"/trials/{child.trial.public_id}/").content.decode()
    assert f'attempt 2, <a href="/trials/{child.trial.public_id}/">trial {child.trial.sequence_id}</a>' in client.get(
        f"/trials/{parent.public_id}/").content.decode()
    api = with_token(admin)
    document = api.get(f"/api/v1/trials/{child.trial.public_id}/").json()
    assert document["continues"] == {"id": parent.public_id, "sequence_id": parent.sequence_id}
    assert api.get(f"/api/v1/trials/{parent.public_id}/").json()["continues"] is None
    newest = api.get(address(attempt)).json()["results"][0]
    assert (newest["resumed_attempts"], newest["resumed_trials"]) == ([2], [child.trial.public_id])


def test_the_attempts_of_other_trials_are_not_looked_through(attempt: Attempt) -> None:
    """On PostgreSQL with statistics as those of a million attempts."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ANALYZE experiments_attempt")  # before it is done nothing is known of the columns
            cursor.execute("UPDATE pg_class SET reltuples = 1e6, relpages = 1 WHERE relname = 'experiments_attempt'")
        plan = checkpoints_of_trial(attempt.trial_id).explain().splitlines()
        transaction.set_rollback(True)
    assert any("experiments_attempt" in line for line in plan)
    assert [line for line in plan if "SCAN experiments_attempt" in line] == [], plan
    assert max((int(rows) for rows in re.findall(r"rows=(\d+)", " ".join(plan))), default=0) < 1000, plan
