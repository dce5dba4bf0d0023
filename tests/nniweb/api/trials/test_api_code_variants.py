"""A trial may bring a variant of its experiment's code: over REST it is checked, kept, told, and run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from nniweb.doctor.files import stored
from nniweb.experiments.actions import given_variants
from nniweb.experiments.downloads.export import csv_pieces, json_pieces
from nniweb.experiments.launch.code_archives import keep_folder
from nniweb.experiments.launch.job_forms import application_form, first_parameters
from nniweb.experiments.models import Attempt, CodeVariant, DiskUsage, Experiment, Trial, User
from nniweb.experiments.retention.disk_usage import measure
from nniweb.experiments.variants.stored_variants import KEEP_UNUSED, remove_unused_variants
from trainingservice.local.service import LocalTrainingService
from trainingservice.trial_job import KeeperAccess, job_document

PATCH = "--- a/trial.py\n+++ b/trial.py\n@@ -1,2 +1,2 @@\n-lr = 0.1\n+lr = 0.2\n print(lr)\n"
CHANGED = "lr = 0.2\nprint(lr)\n"


@pytest.fixture
def varied(make_experiment: Callable[..., Experiment], tmp_path: Path) -> Experiment:
    """An experiment that permits changes of its Python files."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text("lr = 0.1\nprint(lr)\n")
    (code / "data.yml").write_text("x: 1\n")
    return make_experiment(
        code=keep_folder(code.resolve(), timezone.now()), code_folder=str(code), trial_command="python3 trial.py",
        config={"codeVariants": {"paths": ["*.py"], "maxBytes": 1000}})


def submit(api: Any, experiment: Experiment, variant: Any, status: int = 201) -> Any:
    answer = api.post(f"/api/v1/experiments/{experiment.public_id}/trials/",
                      {"parameters": {"x": 0.5}, "variant": variant}, format="json")
    assert answer.status_code == status, answer.content
    return answer.json()


def errors(answer: Any) -> dict[str, str]:
    return {error["field"]: error["message"] for error in answer["errors"]}


def test_a_patch_and_its_files_are_one_variant_which_is_kept_once_and_told(api, varied) -> None:
    row = submit(api, varied, {"patch": PATCH})
    again = submit(api, varied, {"files": {"trial.py": CHANGED}})
    kept = CodeVariant.objects.get()
    assert row["variant"] == again["variant"] == {"sha256": kept.sha256, "files": 1, "bytes": len(CHANGED)}
    told = api.get(f"/api/v1/trials/{row['id']}/variant/").json()
    assert told == {
        **row["variant"], "code": varied.code.sha256, "diff": f"diff --git a/trial.py b/trial.py\n{PATCH}",
        "changed_files": [{"path": "trial.py", "change": "changed", "added_lines": 1, "removed_lines": 1,
                           "executable": False, "text": CHANGED}]}
    # what it gave back can be given again
    assert submit(api, varied, {"patch": told["diff"]})["variant"] == row["variant"]
    assert (Path(varied.code_folder) / "trial.py").read_text() == "lr = 0.1\nprint(lr)\n"


def test_a_trial_without_a_variant_says_so(api, varied) -> None:
    row = submit(api, varied, {"patch": PATCH})
    address = f"/api/v1/experiments/{varied.public_id}/trials/"
    plain = api.post(address, {"parameters": {"x": 0.5}}, format="json").json()
    assert plain["variant"] is None
    assert api.get(f"/api/v1/trials/{plain['id']}/variant/").status_code == 404
    exported = "".join(csv_pieces(Trial.objects.all())).splitlines()
    assert "variant" in exported[0].split(",")
    assert [row["variant"]["sha256"] in line for line in exported[1:]] == [True, False]
    trials = json.loads("".join(json_pieces(varied, Trial.objects.all())))["trials"]
    assert [trial.get("variant") for trial in trials] == [row["variant"]["sha256"], None]


@pytest.mark.parametrize(("variant", "field", "problem"), [
    ({}, "variant", "Give either patch or files"), ({"patch": PATCH, "files": {}}, "variant", "either patch or files"),
    ({"patch": 3.5, "more": 1}, "variant.more", "is not a known field"), ("x", "variant", "must be an object"),
    ({"files": {"../x.py": "x"}}, "variant.files", '"../x.py" has the part'),
    ({"files": {"data.yml": "x: 2\n"}}, "variant.files", '"data.yml" may not be changed: codeVariants.paths'),
    ({"files": {"trial.py": "x" * 1001}}, "variant.files", "codeVariants.maxBytes of this experiment permits"),
    ({"patch": PATCH.replace("0.1", "0.3")}, "variant.patch", '"trial.py" is not as hunk 1'),
    ({"patch": "x"}, "variant.patch", "changes no file"), ({"patch": 5}, "variant.patch", "must be text."),
    ({"patch": True}, "variant.patch", "must be text."),
    ({"files": {"x.py": 5}}, "variant.files.x.py", "must be text."),
    ({"files": {"x.py": ["x"]}}, "variant.files.x.py", "must be text."),
    ({"files": {"a\0b": "x"}}, "variant.files", "U+0000"),
    ({"files": {"a.py": "\0"}}, "variant.files.a.py", "U+0000"), ({"patch": "\0"}, "variant.patch", "U+0000"),
])
def test_a_wrong_variant_is_refused_by_its_field_and_changes_nothing(api, varied, variant, field, problem) -> None:
    assert problem in errors(submit(api, varied, variant, 400))[field]
    assert not CodeVariant.objects.exists()
    assert not Trial.objects.exists()


def test_trials_that_have_not_begun_hold_a_bounded_size_of_variants(
        api, varied, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(api, varied, {"patch": PATCH})
    kept = CodeVariant.objects.get()
    monkeypatch.setattr(given_variants, "MOST_WAITING_BYTES", 2 * kept.size - 1)
    submit(api, varied, {"patch": PATCH})  # the same takes no more room
    answer = submit(api, varied, {"patch": PATCH.replace("+lr = 0.2", "+lr = 0.3")}, 409)
    assert answer["errors"][0]["reason"]["code"] == "too_many_variants"
    assert list(CodeVariant.objects.all()) == [kept]
    for trial in Trial.objects.filter(experiment=varied):
        Attempt.objects.create(trial=trial, cluster=varied.cluster, number=1, job_name=trial.public_id,
                               created_at=timezone.now())
    submit(api, varied, {"patch": PATCH.replace("+lr = 0.2", "+lr = 0.3")})


def test_an_experiment_that_permits_none_takes_none(api, varied) -> None:
    Experiment.objects.filter(pk=varied.pk).update(config={})
    answer = submit(api, varied, {"patch": PATCH}, 400)
    assert answer["errors"][0]["reason"]["code"] == "no_variants"
    assert "has no codeVariants" in errors(answer)["variant"]
    Experiment.objects.filter(pk=varied.pk).update(config=varied.config, code=None)
    assert "is not there any more" in errors(submit(api, varied, {"patch": PATCH}, 400))["variant"]


def test_a_rerun_keeps_the_variant_unless_it_brings_another_one_or_none(api, varied) -> None:
    row = submit(api, varied, {"patch": PATCH})
    rerun = f"/api/v1/trials/{row['id']}/actions/rerun/"
    other = api.post(rerun, {"variant": {"files": {"trial.py": "pass\n"}}}, format="json").json()
    assert other["variant"]["sha256"] != row["variant"]["sha256"]
    plain = api.post(rerun, {"variant": None}, format="json").json()
    assert plain["variant"] is None
    assert api.post(rerun, {}, format="json").status_code == 409, "it has not ended"
    Trial.objects.update(status="FAILED", ended_at=timezone.now())
    assert api.post(rerun, {}, format="json").json()["variant"] == row["variant"]
    Trial.objects.update(status="FAILED", ended_at=timezone.now())
    assert api.post(f"/api/v1/experiments/{varied.public_id}/trials/actions/rerun/",
                    {"trials": [other["id"]]}, format="json").status_code in (200, 201)
    assert Trial.objects.latest("pk").variant.sha256 == other["variant"]["sha256"]
    events = api.get(f"/api/v1/trials/{other['id']}/events/").json()["results"]
    assert events[0]["message"] == "Rerun of trial 0 with another variant of the code."


def test_the_keeper_is_told_the_changed_files_and_starts_no_warm_trial(api, varied) -> None:
    row = submit(api, varied, {"patch": PATCH})
    Experiment.objects.filter(pk=varied.pk).update(config={**varied.config, "warmStart": True})
    trial = Trial.objects.get(public_id=row["id"])
    attempt = Attempt(trial=trial, cluster=varied.cluster, job_name=trial.public_id)
    form = application_form(attempt, first_parameters([trial.pk]).get(trial.pk), LocalTrainingService,
                            KeeperAccess((), ""))
    document = job_document(form, platform="local", code=None)
    assert document["variant"]["sha256"] == row["variant"]["sha256"]
    assert (form.warm_start, document["warm_start"]) == (True, False)


def test_proposals_bring_variants_and_a_key_stands_for_its_variant_too(api, varied) -> None:
    Experiment.objects.filter(pk=varied.pk).update(tuner={"name": "External"})

    def propose(*proposals: Any, status: int = 201) -> Any:
        answer = api.post(f"/api/v1/experiments/{varied.public_id}/proposals/", {"proposals": proposals}, format="json")
        assert answer.status_code == status, answer.content
        return answer.json()

    patch = {"patch": PATCH}
    answer = propose({"parameters": {"x": 0.1}, "variant": {"patch": "x"}},
                     {"parameters": {"x": 0.2}, "variant": {"files": {"/x.py": "x"}}}, status=400)
    assert list(errors(answer)) == ["proposals[0].variant.patch", "proposals[1].variant.files"]
    answer = propose({"parameters": {"x": 0.1}, "variant": None}, {"parameters": {"x": 0.2}, "variant": {"text": "x"}},
                     {"parameters": {"x": 0.2}, "variant": {"files": {"x.py": 5}}}, {}, status=400)
    assert list(errors(answer)) == ["proposals[0].variant", "proposals[1].variant.text",
                                    "proposals[2].variant.files.x.py", "proposals[3].parameters"]
    taken = propose({"parameters": {"x": 0.1}, "key": "a", "variant": patch}, {"parameters": {"x": 0.2}, "key": "b"},
                    {"parameters": {"x": 0.3}, "variant": patch})
    assert [bool(one["trial"]["variant"]) for one in taken["trials"]] == [True, False, True]
    assert propose({"parameters": {"x": 0.1}, "key": "a", "variant": patch}, status=200)["trials"][0]["is_new"] is False
    differs = errors(propose({"parameters": {"x": 0.1}, "key": "a"}, status=400))["proposals[0].key"]
    assert "whose parameters are the same, but whose change to the code is another one." in differs
    differs = errors(propose({"parameters": {"x": 0.2}, "key": "a"}, status=400))["proposals[0].key"]
    assert "whose parameters are others." in differs
    assert "proposals[0].key" in errors(propose({"parameters": {"x": 0.2}, "key": "b", "variant": patch}, status=400))
    assert CodeVariant.objects.count() == 1


def test_a_variant_that_no_trial_has_is_removed_and_one_whose_code_is_gone_loses_its_file(api, varied) -> None:
    row = submit(api, varied, {"patch": PATCH})
    submit(api, varied, {"files": {"trial.py": "pass\n"}})
    used, unused = CodeVariant.objects.order_by("pk")
    Trial.objects.filter(variant=unused).delete()
    assert remove_unused_variants(timezone.now()) == 0, "its trial may be about to be stored"
    later = timezone.now() + KEEP_UNUSED + timedelta(hours=1)
    assert remove_unused_variants(later) == 1
    assert not default_storage.exists(unused.storage_path)
    assert list(CodeVariant.objects.all()) == [used]
    # retention removes the copy of the code
    Experiment.objects.filter(pk=varied.pk).update(code=None, code_removed_at=later)
    assert remove_unused_variants(later) == 1
    assert not default_storage.exists(used.storage_path)
    assert api.get(f"/api/v1/trials/{row['id']}/").json()["variant"] == row["variant"]
    answer = api.get(f"/api/v1/trials/{row['id']}/variant/")
    assert (answer.status_code, "Retention removed it" in answer.content.decode()) == (404, True)
    assert remove_unused_variants(later) == 0
    # the same is stored anew
    Experiment.objects.filter(pk=varied.pk).update(code=varied.code)
    submit(api, varied, {"patch": PATCH})
    assert default_storage.exists(used.storage_path)


def test_variants_count_as_code_in_the_disk_usage_and_doctor_misses_their_files(api, varied) -> None:
    submit(api, varied, {"patch": PATCH})
    submit(api, varied, {"files": {"trial.py": CHANGED}})
    variant = CodeVariant.objects.get()
    measure(varied, timezone.now(), lambda seconds: None)
    assert DiskUsage.objects.get(experiment=varied).code_bytes == varied.code.size + variant.size
    assert [finding.about for finding in stored()] == ["stored files"]
    Path(default_storage.path(variant.storage_path)).unlink()
    [finding] = stored()
    assert (finding.about, variant.storage_path in finding.message) == ("code variants", True)


def test_a_damaged_file_is_written_again_by_the_next_trial_with_it(api, varied) -> None:
    row = submit(api, varied, {"patch": PATCH})
    path = Path(default_storage.path(CodeVariant.objects.get().storage_path))
    path.write_bytes(path.read_bytes()[:20])
    assert "cannot be read" in api.get(f"/api/v1/trials/{row['id']}/variant/").content.decode()
    submit(api, varied, {"patch": PATCH})
    assert api.get(f"/api/v1/trials/{row['id']}/variant/").status_code == 200


def test_a_variant_of_others_is_not_to_be_seen(with_token, varied, api) -> None:
    row = submit(api, varied, {"patch": PATCH})
    stranger = with_token(User.objects.create_user("charlie"))
    assert stranger.get(f"/api/v1/trials/{row['id']}/variant/").status_code == 404
