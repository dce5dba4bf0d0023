"""Clusters are checked and tested before they are saved, and saved as a whole."""

import json
from typing import Any

import pytest
from django.core import signing
from django.test import override_settings

from nniweb.experiments.clusters import draft
from nniweb.experiments.models import AuditEntry, Cluster
from tests.nniweb.api.clusters.vault_platform import Door, VaultSettings, VaultTrainingService
from trainingservice.base import RehearsalFinding

CHECK = "/api/v1/clusters/check/"
SETTINGS: dict[str, Any] = {"address": "there", "token": "sesame", "doors": [{"host": "a", "password": "pw-a"}]}


@pytest.fixture
def cluster(api, vault) -> Cluster:
    answer = api.post("/api/v1/clusters/", {"name": "strong room", "platform": "vault", "settings": SETTINGS})
    assert answer.status_code == 201, answer.content
    return Cluster.objects.get()


def address(cluster: Cluster) -> str:
    return f"/api/v1/clusters/{cluster.public_id}/"


def errors(answer: Any) -> dict[str, str]:
    return {error["field"]: error["message"] for error in answer.json()["errors"]}


def test_a_cluster_is_tested_before_it_is_saved_and_nothing_is_kept(api, vault, data_folder) -> None:
    answer = api.post(CHECK, {"platform": "vault", "settings": SETTINGS})
    assert answer.status_code == 200, answer.content
    assert answer.json()["findings"] == [{"check": "connection", "ok": True, "message": "It opens.", "machine": "",
                                          "temporary": False, "field": "token"}]
    assert answer.json()["secrets_set"] == ["doors[0].password", "token"]
    assert not Cluster.objects.exists()
    assert not list((data_folder / "clusters").glob("*"))
    entry = AuditEntry.objects.get(action="cluster.rehearse")
    assert entry.details == {"platform": "vault", "saved": False}


def test_a_finding_says_which_field_it_is_about(api, vault) -> None:
    [finding] = api.post(CHECK, {"platform": "vault", "settings": {**SETTINGS, "token": "wrong"}}).json()["findings"]
    assert (finding["ok"], finding["field"]) == (False, "token")
    [finding] = api.post(CHECK, {"platform": "vault", "settings": {"address": "away"}}).json()["findings"]
    assert (finding["temporary"], finding["field"]) == (True, "")


def test_the_field_of_a_machines_finding_is_that_of_its_entry() -> None:
    settings = VaultSettings(address="x", doors=[Door(host="a"), Door(host="b"), Door(host="c"), Door(host="c")])
    assert settings.field_of_check("door", "b") == "doors[1].port"
    assert settings.field_of_check("door", "c") == "doors", "two entries have this host"
    assert settings.field_of_check("connection", "b") == "token"
    assert settings.field_of_check("weather", "") == ""


def test_a_finding_with_a_field_of_its_own_keeps_it(api, vault, monkeypatch) -> None:
    found = RehearsalFinding("connection", False, "No.", field="address")
    monkeypatch.setattr(VaultTrainingService, "rehearse", lambda self, quick=False, options=None: [found])
    [finding] = api.post(CHECK, {"platform": "vault", "settings": SETTINGS}).json()["findings"]
    assert finding["field"] == "address"


@pytest.mark.parametrize(("wish", "field"), [
    ({"platform": "volt"}, "platform"), ({"platform": "vault", "settings": {}}, "settings.address"),
    ({"platform": "vault", "settings": {"address": "x", "doors": [{"host": "a", "port": 0}]}},
     "settings.doors[0].port"),
    ({}, "platform"), ({"platform": "vault", "cluster": "x"}, "platform"), ({"platform": "vault", "extra": 1}, "extra"),
    ({"platform": "vault", "settings": []}, "settings")])
def test_what_is_wrong_is_named_and_nothing_is_tested(api, vault, wish, field, monkeypatch) -> None:
    monkeypatch.setattr(VaultTrainingService, "rehearse", lambda *a, **k: pytest.fail("it was tested"))
    answer = api.post(CHECK, wish)
    assert answer.status_code == 400, answer.content
    assert field in errors(answer)


@pytest.mark.parametrize("wrong", ['"\\u0000"', '"\\ud800"', "[" * 200 + "]" * 200])
def test_what_nothing_can_store_is_refused_without_showing_the_kept_secrets(api, cluster, wrong) -> None:
    body = f'{{"cluster": "{cluster.public_id}", "settings": {{"address": {wrong}}}}}'
    for answer in (api.generic("POST", CHECK, body, content_type="application/json"),
                   api.generic("PATCH", address(cluster), f'{{"settings": {{"address": {wrong}}}}}',
                               content_type="application/json")):
        assert answer.status_code == 400, answer.content
        assert "sesame" not in answer.content.decode()
    cluster.refresh_from_db()
    assert cluster.settings["address"] == "there"


def test_a_check_without_a_test_asks_no_platform(api, vault, monkeypatch) -> None:
    monkeypatch.setattr(VaultTrainingService, "__init__", lambda *a, **k: pytest.fail("a service was made"))
    body = api.post(CHECK, {"platform": "vault", "settings": SETTINGS, "test": False}).json()
    assert body == {"secrets_set": ["doors[0].password", "token"], "findings": None, "tested": ""}


def test_changed_settings_are_tested_with_the_secrets_that_stay(api, cluster) -> None:
    shown = api.get(address(cluster)).json()["settings"]
    body = api.post(CHECK, {"cluster": cluster.public_id, "settings": shown}).json()
    assert body["findings"][0]["ok"], "the stored token was used"
    assert body["secrets_set"] == ["doors[0].password", "token"]
    doors = [{"host": "b"}, *shown["doors"]]
    body = api.post(CHECK, {"cluster": cluster.public_id, "settings": {**shown, "doors": doors}, "test": False}).json()
    assert body["secrets_set"] == ["doors[1].password", "token"], "the machine is found at its new place"
    body = api.post(CHECK, {"cluster": cluster.public_id, "settings": {**shown, "doors": []}, "test": False}).json()
    assert body["secrets_set"] == ["token"], "what is not among them would be lost"
    answer = api.post(CHECK, {"cluster": cluster.public_id, "settings": {**shown, "address": "elsewhere"}})
    assert "was given for another address" in errors(answer)["settings.token"]
    assert "sesame" not in answer.content.decode()


def test_only_administrators_check_settings(as_user, alice, vera, cluster) -> None:
    for person in (alice, vera):
        for wish in ({"platform": "vault", "settings": SETTINGS}, {"cluster": cluster.public_id, "settings": SETTINGS}):
            assert as_user(person).post(CHECK, wish).status_code == 403


def test_the_settings_of_a_cluster_that_is_not_there_are_not_checked(api, vault) -> None:
    assert api.post(CHECK, {"cluster": "nothing", "settings": SETTINGS}).status_code == 404


def test_a_test_counts_for_the_cluster_that_is_saved_with_it(api, vault) -> None:
    tested = api.post(CHECK, {"platform": "vault", "settings": SETTINGS}).json()["tested"]
    made = api.post("/api/v1/clusters/", {"name": "a", "platform": "vault", "settings": SETTINGS, "tested": tested})
    assert made.json()["rehearsal"]["findings"][0]["message"] == "It opens."
    for other in ({**SETTINGS, "address": "x"}, {**SETTINGS, "token": "x"}):
        made = api.post("/api/v1/clusters/", {"name": other["address"] + other["token"], "platform": "vault",
                                              "settings": other, "tested": tested})
        assert (made.status_code, made.json()["rehearsal"]) == (201, None), "it was a test of other settings"


def test_a_test_of_before_and_one_that_somebody_wrote_do_not_count(api, vault, monkeypatch) -> None:
    tested = api.post(CHECK, {"platform": "vault", "settings": SETTINGS}).json()["tested"]
    monkeypatch.setattr(draft, "TESTED_FOR", -1)
    forged = signing.dumps({"of": "x", "found": []}, key="another", salt=draft._SALT)
    for number, text in enumerate((tested, forged, "nonsense")):
        made = api.post("/api/v1/clusters/", {"name": f"c{number}", "platform": "vault", "settings": SETTINGS,
                                              "tested": text})
        assert (made.status_code, made.json()["rehearsal"]) == (201, None)


def test_a_changed_cluster_keeps_the_test_of_its_change(api, cluster) -> None:
    changed = {"address": "there", "token": "wrong", "doors": []}
    tested = api.post(CHECK, {"cluster": cluster.public_id, "settings": changed}).json()["tested"]
    assert "wrong" not in tested
    body = api.patch(address(cluster), {"settings": changed, "tested": tested}).json()
    assert body["rehearsal"]["findings"][0]["ok"] is False


def test_a_cluster_is_set_up_with_its_owner_and_limits_at_once(api, alice, vault) -> None:
    wish = {"name": "a", "platform": "vault", "settings": SETTINGS, "owner": "alice", "is_private": True,
            "enabled": False, "max_trials": 3}
    made = api.post("/api/v1/clusters/", wish).json()
    assert (made["owner"], made["is_private"], made["enabled"], made["max_trials"]) == ("alice", True, False, 3)
    answer = api.post("/api/v1/clusters/", {**wish, "name": "b", "owner": "nobody"})
    assert (answer.status_code, list(errors(answer))) == (400, ["owner"])
    assert api.post("/api/v1/clusters/", {**wish, "name": "c", "max_trials": -1}).status_code == 400
    assert Cluster.objects.count() == 1


def test_settings_and_metadata_are_saved_together_or_not_at_all(api, cluster) -> None:
    changes: dict[str, Any] = {"name": "new", "settings": {"address": "there", "doors": []},
                               "metadata": {"note": "wrong", "key_file": "open please", "colour": "red"}}
    answer = api.patch(address(cluster), changes)
    assert answer.status_code == 400
    assert "give the right one" in errors(answer)["metadata.note"]
    assert "has no metadata named" in errors(answer)["metadata.colour"]
    cluster.refresh_from_db()
    assert (cluster.name, len(cluster.settings["doors"]), cluster.metadata.filter(key="key_file").count()) == (
        "strong room", 1, 0)
    changes["metadata"] = {"note": "hello", "key_file": "open please"}
    body = api.patch(address(cluster), changes).json()
    assert (body["name"], body["settings"]["doors"]) == ("new", [])
    assert body["metadata_set"] == ["key_file", "note", "vault_config"]
    assert "open please" not in json.dumps(api.get(f"{address(cluster)}metadata/").json())
    body = api.patch(address(cluster), {"metadata": {"note": None}}).json()
    assert body["metadata_set"] == ["key_file", "vault_config"]


def test_metadata_are_checked_with_the_settings_that_come_with_them(api, cluster, monkeypatch) -> None:
    asked: list[str] = []

    def take(self: Any, key: str, value: str) -> None:
        asked.append(f"{key} at {self.settings.address}")

    monkeypatch.setattr(VaultTrainingService, "set_cluster_metadata", take)
    answer = api.patch(address(cluster), {"settings": {"address": "new", "token": None, "doors": []},
                                          "metadata": {"note": "hello"}})
    assert answer.status_code == 200, answer.content
    assert asked == ["note at new"]


def test_a_key_that_says_the_settings_is_not_changed_beside_them(api, cluster) -> None:
    settings = api.get(address(cluster)).json()["settings"]
    value = json.dumps({"address": "there", "doors": []})
    answer = api.patch(address(cluster), {"settings": settings, "metadata": {"vault_config": value}})
    assert "says what the settings say in doors, address, token" in errors(answer)["metadata.vault_config"]
    assert api.patch(address(cluster), {"metadata": {"vault_config": value}}).json()["settings"]["doors"] == []


def test_metadata_are_changed_by_administrators_alone(as_user, alice, cluster) -> None:
    Cluster.objects.update(is_private=True, owner=alice)
    assert as_user(alice).patch(address(cluster), {"metadata": {"note": "a"}}).status_code == 403
    assert as_user(alice).patch(address(cluster), {"max_trials": 2}).json()["max_trials"] == 2


def test_a_secret_whose_key_is_lost_is_said_and_changes_nothing(api, cluster) -> None:
    with override_settings(SEAL_KEYS=["dGhpcyBpcyBub3QgdGhlIGtleSBvZiB0aGUgdmF1bHQ="]):
        for answer in (api.patch(address(cluster), {"settings": {"address": "x"}}),
                       api.post(CHECK, {"cluster": cluster.public_id, "settings": {"address": "x"}})):
            assert answer.status_code == 409, answer.content
            assert "Restore the old key" in errors(answer)[""]


def test_a_cluster_whose_platform_is_gone_says_so(api, cluster) -> None:
    Cluster.objects.update(platform="gone")
    answer = api.patch(address(cluster), {"settings": {"address": "x"}})
    assert answer.status_code == 400
    assert "gone" in errors(answer)["settings"]
