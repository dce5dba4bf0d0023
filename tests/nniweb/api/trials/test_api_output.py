"""Output by byte offset: readers go on where they stopped and see what is missing."""

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from nniweb.experiments.models import Attempt, TrialFile, TrialOutput


@pytest.fixture
def attempt(make_attempt):
    return make_attempt()


def write(attempt, offset: int, data: bytes, skipped: int = 0, stream: str = "stdout") -> None:
    TrialOutput.objects.create(attempt=attempt, stream=stream, offset=offset, data=data, skipped=skipped)


def read(api, of, **query) -> dict:
    answer = api.get(f"/api/v1/trials/{of.trial.public_id}/output/", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_pieces_are_joined(api, attempt) -> None:
    write(attempt, 0, b"one\n")
    write(attempt, 4, b"two\n")
    write(attempt, 0, b"oops\n", stream="stderr")
    part = read(api, attempt)
    assert (part["text"], part["next_offset"], part["size"], part["gaps"]) == ("one\ntwo\n", 8, 8, [])
    assert read(api, attempt, stream="stderr")["text"] == "oops\n"


def test_a_reader_goes_on_where_it_stopped(api, attempt) -> None:
    write(attempt, 0, b"abcdef")
    write(attempt, 6, b"ghij")
    seen, offset = "", 0
    while offset < 10:
        part = read(api, attempt, offset=offset, limit=4)
        assert part["next_offset"] > offset
        seen, offset = seen + part["text"], part["next_offset"]
    assert seen == "abcdefghij"
    at_end = read(api, attempt, offset=10)
    assert (at_end["text"], at_end["next_offset"]) == ("", 10)


@pytest.mark.parametrize("limit", [4, 5, 6, 7])
def test_no_character_is_torn_apart(api, attempt, limit) -> None:
    text = "aé€😀" * 5
    data = text.encode()
    write(attempt, 0, data[:11])
    write(attempt, 11, data[11:])
    seen, offset = "", 0
    while offset < len(data):
        part = read(api, attempt, offset=offset, limit=limit)
        seen, offset = seen + part["text"], part["next_offset"]
    assert seen == text


def test_a_character_not_yet_complete_is_waited_for_while_the_trial_runs(api, attempt) -> None:
    write(attempt, 0, "né".encode()[:-1])
    part = read(api, attempt)
    assert (part["text"], part["next_offset"]) == ("n", 1)
    Attempt.objects.update(stage="ended")
    part = read(api, attempt)
    assert (part["text"], part["next_offset"]) == ("n\N{REPLACEMENT CHARACTER}", 2)


def test_what_is_no_text_is_shown_as_such(api, attempt) -> None:
    write(attempt, 0, b"\xff\x00ok")
    assert read(api, attempt)["text"] == "\N{REPLACEMENT CHARACTER}\x00ok"


def test_what_stayed_on_the_machine_is_a_gap_with_its_place(api, attempt) -> None:
    write(attempt, 0, b"head")
    write(attempt, 1_000_000, b"tail", skipped=999_996)
    part = read(api, attempt, offset=2)
    assert (part["text"], part["next_offset"], part["gaps"]) == ("ad", 4, [])
    part = read(api, attempt, offset=4)
    assert (part["text"], part["next_offset"], part["size"]) == ("tail", 1_000_004, 1_000_004)
    assert part["gaps"] == [{"offset": 4, "skipped": 999_996, "position": 0}]
    part = read(api, attempt, offset=500_000)
    assert part["gaps"] == [{"offset": 500_000, "skipped": 500_000, "position": 0}]
    inside = read(api, attempt, offset=1_000_002)
    assert (inside["text"], inside["gaps"]) == ("il", [])


def test_a_small_gap_stands_within_the_text(api, attempt) -> None:
    write(attempt, 0, "hé".encode())
    write(attempt, 10, b"tail", skipped=7)
    part = read(api, attempt)
    assert (part["text"], part["gaps"]) == ("hétail", [{"offset": 3, "skipped": 7, "position": 2}])


def test_metric_lines_that_offsets_step_over_are_no_gap(api, attempt) -> None:
    write(attempt, 0, b"a\n")
    write(attempt, 50, b"b\n")
    part = read(api, attempt)
    assert (part["text"], part["gaps"], part["next_offset"]) == ("a\nb\n", [], 52)


def test_a_trial_that_never_started_has_no_output(api, make_attempt) -> None:
    attempt = make_attempt()
    trial = attempt.trial
    attempt.delete()
    body = api.get(f"/api/v1/trials/{trial.public_id}/output/").json()
    assert (body["attempt"], body["text"], body["size"]) == (0, "", 0)


def test_the_latest_attempt_is_shown_and_earlier_ones_on_demand(api, attempt) -> None:
    write(attempt, 0, b"first")
    second = Attempt.objects.create(trial=attempt.trial, number=2, job_name=f"{attempt.job_name}r2",
                                    created_at=attempt.created_at)
    write(second, 0, b"second")
    assert read(api, attempt)["text"] == "second"
    assert read(api, attempt, attempt=1)["text"] == "first"
    assert api.get(f"/api/v1/trials/{attempt.trial.public_id}/output/?attempt=3").status_code == 404


@pytest.mark.parametrize("query", ["stream=stdin", "offset=-1", "offset=x", "limit=0", "limit=99999999", "attempt=0"])
def test_a_wrong_question_is_refused_by_name(api, attempt, query) -> None:
    answer = api.get(f"/api/v1/trials/{attempt.trial.public_id}/output/?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == query.partition("=")[0]


@pytest.mark.parametrize("name", ['out/pagé "1".html', "out/a\nb\r.html"])
def test_a_kept_file_is_only_ever_stored_by_a_browser(api, attempt, name: str) -> None:
    path = default_storage.save("trials/x/file", ContentFile(b"<script>alert(1)</script>"))
    TrialFile.objects.create(attempt=attempt, name=name, size=25, storage_path=path)
    base = f"/api/v1/trials/{attempt.trial.public_id}/files/"
    row = api.get(base).json()["results"][0]
    assert (row["name"], row["size"], row["attempt"]) == (name, 25, 1)
    answer = api.get(f"{base}{row['id']}/")
    assert answer.content == b"<script>alert(1)</script>"
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")
    assert "sandbox" in answer["Content-Security-Policy"]
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_files_of_another_trial_and_lost_ones_are_404(api, attempt, make_attempt) -> None:
    kept = TrialFile.objects.create(attempt=attempt, name="a", size=1, storage_path="trials/gone")
    other = make_attempt().trial
    assert api.get(f"/api/v1/trials/{other.public_id}/files/{kept.pk}/").status_code == 404
    lost = api.get(f"/api/v1/trials/{attempt.trial.public_id}/files/{kept.pk}/")
    assert lost.status_code == 404
    assert "data folder" in lost.json()["errors"][0]["message"]


def test_a_kept_file_that_was_damaged_is_an_error_and_not_an_empty_answer(api, attempt) -> None:
    path = default_storage.save("trials/x/model", ContentFile(b""))
    kept = TrialFile.objects.create(attempt=attempt, name="model.bin", size=6, storage_path=path)
    answer = api.get(f"/api/v1/trials/{attempt.trial.public_id}/files/{kept.pk}/")
    assert answer.status_code == 410
    assert "model.bin was damaged on the server's disk" in answer.json()["errors"][0]["message"]
