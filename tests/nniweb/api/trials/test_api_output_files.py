"""What a trial has written on its machine, over REST: listed, read in pieces, by those who may see the trial."""

import io
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from rest_framework.test import APIClient

from nniweb.api.trials.trial_output_files import instant
from nniweb.experiments.clusters import platform_calls
from nniweb.experiments.clusters.service_factory import state_folder
from nniweb.experiments.downloads import output_download
from nniweb.experiments.downloads.trial_output_folder import TrialOutputFolder
from nniweb.experiments.models import Attempt, User
from tests.nniweb.api.clusters.stuck_platform import StuckTrainingService
from trainingservice.files import output_folder
from trainingservice.platforms import register, unregister
from trialkeeper import folder_reader


@pytest.fixture
def attempt(make_attempt: Callable[..., Attempt]) -> Attempt:
    return make_attempt()


def output_of(attempt: Attempt) -> Path:
    """The output folder of an attempt of the local platform, made if need be."""
    experiment = attempt.trial.experiment
    folder = state_folder(experiment.cluster) / "trials" / experiment.public_id / attempt.job_name / "nni"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def address(attempt: Attempt, rest: str = "") -> str:
    return f"/api/v1/trials/{attempt.trial.public_id}/output-files/{rest}"


def content(answer: Any) -> bytes:
    async def pieces() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])
    return async_to_sync(pieces)()


def message(answer: Any) -> str:
    return str(answer.json()["errors"][0]["message"])


@pytest.mark.parametrize("name", ["end\n", "\n", "a\nSet-Cookie: x", "tab\t", "\r\n", "quote\"\\", "\x7f", "\u00e4\n"])
def test_a_file_of_any_name_can_be_fetched(api: APIClient, attempt: Attempt, name: str) -> None:
    (output_of(attempt) / name).write_bytes(b"it is")
    answer = api.get(address(attempt, "content/"), {"name": name})
    assert answer.status_code == 200, answer.content
    assert content(answer) == b"it is"
    assert answer["Content-Disposition"].startswith("attachment; filename")
    assert not any(ord(character) < 32 for character in answer["Content-Disposition"])


def test_files_are_listed_with_size_and_time_and_what_is_left_out(api: APIClient, attempt: Attempt) -> None:
    folder = output_of(attempt)
    (folder / "sub").mkdir()
    (folder / "sub" / "model.pt").write_bytes(b"x" * 10)
    os.utime(folder / "sub" / "model.pt", (1_700_000_000, 1_700_000_000))
    (folder / "link").symlink_to("/etc/passwd")
    assert api.get(address(attempt)).json() == {"attempt": 1, "cut": False, "left_out": 1, "files": [
        {"name": "sub/model.pt", "size": 10, "modified_at": "2023-11-14T22:13:20Z"}]}


def test_a_time_that_no_calendar_has_is_none() -> None:
    assert [instant(seconds) for seconds in (2.0**60, -(2.0**60), float("nan"))] == [None] * 3


def test_a_file_is_sent_in_pieces_as_an_attachment_that_no_browser_shows(api: APIClient, attempt: Attempt,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_reader, "MOST_BYTES", 7)
    (output_of(attempt) / 'a "page".html').write_text("<script>alert(1)</script>")
    answer = api.get(address(attempt, "content/"), {"name": 'a "page".html'})
    assert answer.status_code == 200
    assert content(answer) == b"<script>alert(1)</script>"
    assert answer["Content-Length"] == "25"
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="a \\"page\\".html"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"


@pytest.mark.parametrize("name", ["link", "../../../../../secret", "/etc/passwd", "pipe", "nothing", "folder"])
def test_nothing_but_plain_files_of_the_folder_is_sent(api: APIClient, attempt: Attempt, data_folder: Path,
                                                       name: str) -> None:
    folder = output_of(attempt)
    (data_folder / "secret").write_text("key")
    (folder / "link").symlink_to(data_folder / "secret")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    answer = api.get(address(attempt, "content/"), {"name": name})
    assert answer.status_code == 404, answer.content
    assert "not a regular file" in message(answer)


def test_a_file_that_is_replaced_or_cut_while_it_is_sent_breaks_off_and_is_never_a_mixture(
        attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_reader, "MOST_BYTES", 4)
    path = output_of(attempt) / "model"
    for change in (lambda: (path.with_name("new").write_bytes(b"NEW!NEW!"), path.with_name("new").rename(path)),
                   lambda: path.write_bytes(b"")):
        path.write_bytes(b"old old ")
        with TrialOutputFolder(attempt) as folder:
            pieces = output_download.rest_of_file(folder, "model", folder.read("model", 0))
            assert next(pieces) == b"old "
            change()
            with pytest.raises(output_download.FileChanged):
                next(pieces)


def test_what_a_file_gains_while_it_is_sent_is_not_part_of_it(attempt: Attempt,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_reader, "MOST_BYTES", 4)
    path = output_of(attempt) / "log"
    path.write_bytes(b"one two")
    with TrialOutputFolder(attempt) as folder:
        pieces = output_download.rest_of_file(folder, "log", folder.read("log", 0))
        first = next(pieces)
        path.open("ab").write(b" three")
        assert first + b"".join(pieces) == b"one two"


def test_all_files_come_as_one_archive_which_names_what_is_missing_in_it(api: APIClient, attempt: Attempt,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    folder = output_of(attempt)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / ("long name " * 20)).write_bytes(b"x" * 1500)
    (folder / "grün").write_text("ü")
    (folder / "leaves").write_text("gone")
    answer = api.get(address(attempt, "archive/"))
    (folder / "leaves").unlink()
    with tarfile.open(fileobj=io.BytesIO(content(answer))) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    top = attempt.job_name
    assert members.keys() == {f"{top}/deep/er/{'long name ' * 20}", f"{top}/grün", f"{top}/NOT-COMPLETE.txt"}
    assert members[f"{top}/grün"] == "ü".encode()
    assert members[f"{top}/NOT-COMPLETE.txt"].startswith(b"leaves: There is no such file")
    assert answer["Content-Disposition"] == f'attachment; filename="{top}.tar"'


def test_who_may_not_see_the_trial_finds_nothing_and_a_viewer_reads(
        as_user: Callable[[User], APIClient], charlie: User, vera: User, group: Group, attempt: Attempt) -> None:
    (output_of(attempt) / "model").write_text("x")
    experiment = attempt.trial.experiment
    experiment.group = group
    experiment.save()
    for rest in ("", "content/?name=model", "archive/"):
        assert as_user(charlie).get(address(attempt, rest)).status_code == 404
        assert as_user(vera).get(address(attempt, rest)).status_code == 200


def test_an_earlier_attempt_has_a_folder_of_its_own(api: APIClient, attempt: Attempt) -> None:
    (output_of(attempt) / "first").write_text("x")
    again = Attempt.objects.create(trial=attempt.trial, number=2, job_name=f"{attempt.job_name}r2",
                                   created_at=attempt.created_at)
    (output_of(again) / "second").write_text("x")
    assert [file["name"] for file in api.get(address(attempt)).json()["files"]] == ["second"]
    assert [file["name"] for file in api.get(address(attempt), {"attempt": 1}).json()["files"]] == ["first"]
    assert api.get(address(attempt), {"attempt": 3}).status_code == 404


def test_a_trial_that_has_not_begun_or_whose_files_are_gone_says_so(api: APIClient, attempt: Attempt) -> None:
    answer = api.get(address(attempt))
    assert (answer.status_code, "files were removed" in message(answer)) == (404, True)
    attempt.delete()
    answer = api.get(address(attempt))
    assert (answer.status_code, "has no machine" in message(answer)) == (404, True)


def test_where_this_server_cannot_look_a_sentence_points_at_kept_files(api: APIClient, attempt: Attempt) -> None:
    cluster = attempt.trial.experiment.cluster
    cluster.pinned_host = "another-host"
    cluster.save()
    answer = api.get(address(attempt))
    assert answer.status_code == 409
    assert "another-host" in message(answer)
    assert "keepFiles" in message(answer)
    cluster.pinned_host, cluster.platform = "", "kubernetes"
    cluster.save()
    answer = api.get(address(attempt))
    assert answer.status_code == 409, answer.content
    assert "keepFiles" in message(answer)


def test_a_platform_that_hangs_is_given_up_with_a_sentence(api: APIClient, attempt: Attempt,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StuckTrainingService, "released", threading.Event())
    register("stuck", "tests.nniweb.api.clusters.stuck_platform:StuckTrainingService")
    try:
        cluster = attempt.trial.experiment.cluster
        cluster.platform, cluster.settings = "stuck", {"part": "output folder"}
        cluster.save()
        monkeypatch.setattr(platform_calls, "BRIEF", 0.2)
        answer = api.get(address(attempt))
        assert (answer.status_code, "has not answered" in message(answer)) == (503, True)
    finally:
        StuckTrainingService.released.set()
        unregister("stuck")


def test_what_only_a_defect_of_a_platform_raises_is_a_sentence(api: APIClient, attempt: Attempt,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    output_of(attempt)
    monkeypatch.setattr(output_folder.FolderHere, "list_files", lambda self: 1 / 0)
    answer = api.get(address(attempt))
    assert (answer.status_code, "ZeroDivisionError" in message(answer)) == (503, True)
