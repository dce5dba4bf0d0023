"""Event files are copied, and go on being copied; nothing else that a trial wrote comes to the server."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from nniweb.experiments.models import Attempt, TrialFile
from nniweb.tensorboard.event_files import TrialCopy
from nniweb.tensorboard.run_names import run_path
from trainingservice.errors import TemporaryError
from trainingservice.files.output_folder import FolderHere, Found, FoundFile

EVENTS = "events.out.tfevents.1.host"
PLENTY = 10**9


@pytest.fixture
def attempt(make_attempt: Callable[..., Attempt]) -> Attempt:
    return make_attempt(status="RUNNING")


@pytest.fixture
def output(attempt: Attempt, output_of: Callable[[Attempt], Path]) -> Path:
    return output_of(attempt)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


def copied(logs: Path) -> dict[str, bytes]:
    return {str(path.relative_to(logs)): path.read_bytes() for path in logs.rglob("*") if path.is_file()}


def brought(attempt: Attempt, logs: Path, most: int = PLENTY) -> TrialCopy:
    copy = TrialCopy(attempt.trial.public_id, logs)
    copy.bring(most)
    return copy


def test_the_folder_tensorboard_is_taken_as_nni_has_it_and_what_it_gains_follows(attempt: Attempt, output: Path,
                                                                               logs: Path) -> None:
    (output / "tensorboard" / "train").mkdir(parents=True)
    (output / "tensorboard" / EVENTS).write_bytes(b"one")
    (output / "tensorboard" / "train" / EVENTS).write_bytes(b"t")
    (output / "elsewhere" / "x").mkdir(parents=True)
    (output / "elsewhere" / "x" / EVENTS).write_bytes(b"not this")
    copy = brought(attempt, logs)
    assert copied(logs) == {f"trial-0/{EVENTS}": b"one", f"trial-0/train/{EVENTS}": b"t"}
    (output / "tensorboard" / EVENTS).open("ab").write(b" two")
    copy.bring(PLENTY)
    assert copied(logs)[f"trial-0/{EVENTS}"] == b"one two"
    assert (copy.problem, copy.is_whole, copy.size) == ("", False, 8)
    copy.close()


def test_a_file_that_another_one_replaced_is_copied_anew(attempt: Attempt, output: Path, logs: Path) -> None:
    (output / EVENTS).write_bytes(b"old old")
    copy = brought(attempt, logs)
    (output / "new").write_bytes(b"brand new")
    (output / "new").rename(output / EVENTS)
    copy.bring(PLENTY)
    assert (copied(logs), copy.size) == ({f"trial-0/{EVENTS}": b"brand new"}, 9)
    copy.close()


def test_nothing_but_plain_event_files_is_taken(attempt: Attempt, output: Path, logs: Path, data_folder: Path) -> None:
    """A projector's settings name files, which TensorBoard would read and show."""
    (data_folder / "seal_keys").write_text("key")
    (output / "tensorboard").mkdir()
    (output / "tensorboard" / "projector_config.pbtxt").write_text(f'metadata_path: "{data_folder}/seal_keys"')
    (output / "tensorboard" / f"{EVENTS}.link").symlink_to(data_folder / "seal_keys")
    (output / "tensorboard" / "tfevents").symlink_to(data_folder)
    (output / "tensorboard" / EVENTS).write_bytes(b"x")
    brought(attempt, logs).close()
    assert copied(logs) == {f"trial-0/{EVENTS}": b"x"}


def test_names_that_a_platform_tells_never_lead_out_of_the_folder(attempt: Attempt, output: Path, logs: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"../{EVENTS}", f"/tmp/{EVENTS}", f"a/../../{EVENTS}", f"a\n<b>/{EVENTS}"]
    (output / EVENTS).write_bytes(b"x")
    read = FolderHere.read
    monkeypatch.setattr(FolderHere, "list_files", lambda self: Found([FoundFile(name, 1, 0.0) for name in names],
                                                                     False, 0))
    monkeypatch.setattr(FolderHere, "read", lambda self, name, *part: read(self, EVENTS, *part))
    brought(attempt, logs).close()
    assert copied(logs) == {f"trial-0/a__b_/{EVENTS}": b"x"}
    assert not list(logs.parent.glob("*tfevents*"))


@pytest.mark.parametrize(("name", "path"), [
    (f"tensorboard/{EVENTS}", EVENTS), (f"NNI_OUTPUT_DIR/tensorboard/run/{EVENTS}", f"run/{EVENTS}"),
    (f"logs/{EVENTS}", f"logs/{EVENTS}"), (f"...../{EVENTS}", f"_...../{EVENTS}"), ("", None), ("a//b", None),
    (f"tensorboard/../../{EVENTS}", None), ("/etc/passwd", None)])
def test_the_copys_path_is_the_name_of_the_run(name: str, path: str | None) -> None:
    assert run_path(Path("/logs/trial-0"), name) == (None if path is None else Path("/logs/trial-0") / path)


def test_no_more_is_copied_than_a_tensorboard_may_and_it_says_so(attempt: Attempt, output: Path, logs: Path) -> None:
    (output / EVENTS).write_bytes(b"x" * 100)
    copy = brought(attempt, logs, 99)
    assert "NNIWEB_TENSORBOARD_MB" in copy.problem
    assert sum(map(len, copied(logs).values())) <= 99
    copy.close()


def test_of_an_ended_trial_whose_machine_is_gone_the_kept_files_are_shown(attempt: Attempt, logs: Path,
                                                                         tmp_path: Path, settings) -> None:
    settings.STORAGES = {**settings.STORAGES, "default": {**settings.STORAGES["default"], "OPTIONS": {
        "location": str(tmp_path / "files")}}}
    path = default_storage.save("trials/kept", ContentFile(b"kept"))
    TrialFile.objects.create(attempt=attempt, name=f"NNI_OUTPUT_DIR/tensorboard/{EVENTS}", size=4, storage_path=path)
    ended(attempt)
    copy = brought(attempt, logs)
    assert (copied(logs), copy.problem, copy.is_whole) == ({f"trial-0/{EVENTS}": b"kept"}, "", True)
    assert "NNIWEB_TENSORBOARD_MB" in brought(attempt, tmp_path / "others", 3).problem


def test_a_trial_without_event_files_or_that_has_not_begun_says_so(attempt: Attempt, output: Path, logs: Path,
                                                                 make_attempt: Callable[..., Attempt]) -> None:
    assert "no event files" in brought(attempt, logs).problem
    waiting = make_attempt()
    waiting.delete()
    assert "not started" in brought(waiting, logs).problem


def ended(attempt: Attempt) -> None:
    attempt.trial.status = "SUCCEEDED"
    attempt.trial.save()


def test_an_ended_trial_is_looked_at_until_all_of_it_is_here_and_not_longer(
        attempt: Attempt, output: Path, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (output / EVENTS).write_bytes(b"x" * 100)
    ended(attempt)
    with monkeypatch.context() as machine:
        machine.setattr(FolderHere, "list_files", lambda self: (_ for _ in ()).throw(TemporaryError("It is away.")))
        copy = brought(attempt, logs)
        assert (copy.problem, copy.is_whole) == ("It is away.", False)
    copy.bring(PLENTY)
    assert (copy.problem, copy.is_whole, copy.size) == ("", True, 100)
    assert brought(attempt, logs, 99).is_whole, "there is no room for it, now or later"
    (output / EVENTS).unlink()
    copy = brought(attempt, logs)
    assert ("no event files" in copy.problem, copy.is_whole) == (True, True)
    output.rmdir()
    copy = brought(attempt, logs)
    assert ("files were removed" in copy.problem, copy.is_whole) == (True, True)


def test_of_a_new_attempt_nothing_is_left_of_the_one_before(attempt: Attempt, output: Path, logs: Path,
                                                           output_of: Callable[[Attempt], Path]) -> None:
    (output / "old").mkdir()
    (output / "old" / EVENTS).write_bytes(b"old")
    copy = brought(attempt, logs)
    again = Attempt.objects.create(trial=attempt.trial, number=2, job_name=f"{attempt.job_name}r2",
                                   created_at=attempt.created_at)
    (output_of(again) / EVENTS).write_bytes(b"new")
    copy.bring(PLENTY)
    assert (copied(logs), copy.size) == ({f"trial-0/{EVENTS}": b"new"}, 3)
    copy.close()
