"""Clusters in the admin: the platform checks, secrets go in and never out."""

import json
from typing import Any

import pytest

from nniweb.experiments.clusters import editing
from nniweb.experiments.clusters.metadata import set_metadata
from nniweb.experiments.clusters.service_factory import build_service
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.models import Cluster

SETTINGS = {"address": "there", "token": "sesame", "doors": [{"host": "a", "password": "pw-a"}]}
ADD = "/admin/experiments/cluster/add/"


@pytest.fixture
def cluster(rita, vault) -> Cluster:
    return editing.create_cluster("strong room", "vault", SETTINGS, owner=rita, is_private=False, host="")


def page_of(cluster: Cluster) -> str:
    return f"/admin/experiments/cluster/{cluster.pk}/change/"


def form(cluster: Cluster | None = None, metadata: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    rows = metadata or []
    known = sum("id" in row for row in rows)
    data = {"name": "strong room", "settings": json.dumps(cluster.settings if cluster else SETTINGS), "enabled": "on",
            "owner": cluster.owner_id if cluster else "", **({} if cluster else {"platform": "vault"}), **fields,
            "metadata-TOTAL_FORMS": len(rows), "metadata-INITIAL_FORMS": known}
    for number, row in enumerate(rows):
        data |= {f"metadata-{number}-{name}": value for name, value in
                 {"cluster": cluster.pk if cluster else "", **row}.items()}
    return data


def errors_of(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, "a form with errors is shown again"
    return dict(answer.context["adminform"].form.errors)


def token_of(cluster: Cluster) -> str | None:
    settings: Any = build_service(Cluster.objects.get(pk=cluster.pk)).settings
    return settings.token and settings.token.get_secret_value()


def test_a_cluster_is_set_up_with_its_secrets_sealed(browser, vault) -> None:
    answer = browser.post(ADD, form())
    assert answer.status_code == 302, errors_of(answer)
    made = Cluster.objects.get()
    assert (made.name, made.platform, made.enabled, made.is_private) == ("strong room", "vault", True, False)
    assert made.settings == {"address": "there", "doors": [{"host": "a", "port": 22}]}
    assert token_of(made) == "sesame"


@pytest.mark.parametrize(("fields", "field", "words"), [
    ({"settings": "{}"}, "settings", "address"), ({"settings": "[1]"}, "settings", "JSON object"),
    ({"settings": "{"}, "settings", "JSON"), ({"name": "a/b"}, "name", "slash"),
    ({"settings": '{"address": "x", "doors": [{"host": "a", "port": 0}]}'}, "settings", "doors[0].port"),
    ({"platform": "volt"}, "platform", "volt")])
def test_what_the_platform_refuses_is_said_at_the_field(browser, vault, fields, field, words) -> None:
    found = errors_of(browser.post(ADD, form(**fields)))
    assert words in " ".join(found[field])
    assert not Cluster.objects.exists()


def test_no_page_shows_a_secret(browser, cluster) -> None:
    set_metadata(cluster, "key_file", "open please")
    for address in (page_of(cluster), "/admin/experiments/cluster/"):
        text = browser.get(address).content.decode()
        assert not any(secret in text for secret in ("sesame", "pw-a", "open please"))
    text = browser.get(page_of(cluster)).content.decode()
    assert "doors[0].password: set, token: set" in text
    assert "A value is set. Leave this empty to keep it" in text


def test_secrets_left_out_stay_and_new_ones_take_their_place(browser, cluster) -> None:
    doors = [{"host": "back"}]
    answer = browser.post(page_of(cluster), form(cluster, settings=json.dumps({**cluster.settings, "doors": doors})))
    assert answer.status_code == 302, errors_of(answer)
    assert (Cluster.objects.get().settings["doors"][0]["host"], token_of(cluster)) == ("back", "sesame")
    elsewhere = json.dumps({**cluster.settings, "address": "here"})
    answer = browser.post(page_of(cluster), form(cluster, settings=elsewhere))
    assert "token: was given for another address" in errors_of(answer)["settings"][0]
    assert token_of(cluster) == "sesame"
    browser.post(page_of(cluster), form(cluster, settings='{"address": "here", "token": "simsim"}'))
    assert token_of(cluster) == "simsim"
    assert "simsim" not in json.dumps(Cluster.objects.get().settings)


def test_words_and_switches_are_changed_and_the_worker_notices(browser, cluster) -> None:
    before = cluster.settings_revision
    answer = browser.post(page_of(cluster), form(cluster, name="vault two", enabled=""))
    assert answer.status_code == 302, errors_of(answer)
    cluster.refresh_from_db()
    assert (cluster.name, cluster.enabled, cluster.platform) == ("vault two", False, "vault")
    assert cluster.settings_revision > before


def test_metadata_are_set_kept_and_removed(browser, cluster) -> None:
    rows: list[dict[str, Any]] = [{"key": "key_file", "value": "open please"}, {"key": "note", "value": "hello"}]
    answer = browser.post(page_of(cluster), form(cluster, rows))
    assert answer.status_code == 302, errors_of(answer)
    stored = {row.key: row for row in cluster.metadata.all()}
    assert stored["key_file"].is_secret
    assert (stored["key_file"].value, stored["note"].value) == ("", "hello")
    sealed = bytes(stored["key_file"].sealed_value)
    kept = [{"id": stored["key_file"].pk, "value": ""}, {"id": stored["note"].pk, "value": "hello again"}]
    browser.post(page_of(cluster), form(cluster, kept))
    again = {row.key: row for row in cluster.metadata.all()}
    assert bytes(again["key_file"].sealed_value) == sealed, "an empty field leaves a secret as it is"
    assert again["note"].value == "hello again"
    browser.post(page_of(cluster), form(cluster, [{"id": again["key_file"].pk, "value": "", "DELETE": "on"},
                                                  {"id": again["note"].pk, "value": "hello again"}]))
    assert "key_file" not in {row.key for row in cluster.metadata.all()}
    assert token_of(cluster) == "sesame", "secrets of the settings are none of the metadata's business"


def shown_on(browser: Any, cluster: Cluster) -> dict[str, tuple[str, str]]:
    """Key -> what its row shows, and what its field is named on the page."""
    forms = browser.get(page_of(cluster)).context["inline_admin_formsets"][0].formset.forms
    return {each.instance.key or each.initial["key"]: (each.initial.get("value") or "", each.prefix) for each in forms}


def test_each_key_is_a_row_that_shows_what_the_settings_say(browser, cluster) -> None:
    rows = shown_on(browser, cluster)
    assert sorted(rows) == ["key_file", "nni_manager_ip", "note", "trial_config", "vault_config"]
    assert json.loads(rows["vault_config"][0]) == {"address": "there", "doors": [{"host": "a", "port": 22}]}
    assert rows["trial_config"][0] == ""


def test_a_row_changes_the_settings_and_is_checked_before_anything_is_saved(browser, cluster) -> None:
    def post(value: str, note: str, **settings: Any) -> Any:
        rows = shown_on(browser, cluster)
        data = form(cluster, [{}] * len(rows), **settings)
        for key, (shown, prefix) in rows.items():
            given = {"vault_config": value, "note": note}.get(key, shown)
            data |= {f"{prefix}-key": key, f"{prefix}-value": given.replace("\n", "\r\n"),
                     f"initial-{prefix}-value": shown.replace("\n", "\r\n")}
        data["metadata-INITIAL_FORMS"] = cluster.metadata.filter(key="note").count()
        for row in cluster.metadata.filter(key="note"):
            data["metadata-0-id"] = row.pk
        return browser.post(page_of(cluster), data)

    answer = post('{"adress": "here"}', "a note")
    assert answer.status_code == 200
    assert "vault_config.adress: is not a known field here" in str(
        answer.context["inline_admin_formsets"][0].formset.errors)
    assert Cluster.objects.get().settings["address"] == "there"
    assert not cluster.metadata.filter(key="note").exists()
    answer = post('{"address": "here", "token": "simsim"}', "a note")
    assert answer.status_code == 302, errors_of(answer)
    assert Cluster.objects.get().settings == {"address": "here", "doors": []}
    assert token_of(cluster) == "simsim"
    assert cluster.metadata.get(key="note").value == "a note"
    assert "simsim" not in browser.get(page_of(cluster)).content.decode()
    revision = Cluster.objects.get().settings_revision
    cluster.refresh_from_db()
    assert post(shown_on(browser, cluster)["vault_config"][0], "a note").status_code == 302
    assert Cluster.objects.get().settings_revision == revision, "a page that is saved as it is changes nothing"
    assert post(shown_on(browser, cluster)["vault_config"][0], "").status_code == 302
    assert not cluster.metadata.filter(key="note").exists(), "a row that is emptied is removed"


@pytest.mark.parametrize(("row", "words"), [({"key": "note", "value": "wrong"}, "give the right one"),
                                            ({"key": "colour", "value": "red"}, "valid choice")])
def test_metadata_the_platform_refuses_are_said_at_their_field(browser, cluster, row, words) -> None:
    answer = browser.post(page_of(cluster), form(cluster, [row]))
    assert answer.status_code == 200
    assert words in str(answer.context["inline_admin_formsets"][0].formset.errors)
    assert not cluster.metadata.filter(key__in=["note", "colour"]).exists()


def test_a_key_given_twice_is_refused(browser, cluster) -> None:
    rows: list[dict[str, Any]] = [{"key": "note", "value": "a"}, {"key": "note", "value": "b"}]
    answer = browser.post(page_of(cluster), form(cluster, rows))
    assert answer.status_code == 200
    assert "duplicate" in str(answer.context["inline_admin_formsets"][0].formset.non_form_errors())


def test_metadata_that_must_not_change_while_experiments_run_are_refused(browser, cluster, make_experiment) -> None:
    make_experiment(cluster=cluster)
    answer = browser.post(page_of(cluster), form(cluster, [{"key": "key_file", "value": "open please"}]))
    assert "cannot be changed while experiments use the cluster" in str(
        answer.context["inline_admin_formsets"][0].formset.errors)


def test_rehearsing_shows_every_finding(browser, cluster) -> None:
    act = {"action": "rehearse", "_selected_action": [cluster.pk]}
    answer = browser.post("/admin/experiments/cluster/", act, follow=True)
    assert [(str(message), message.level_tag) for message in answer.context["messages"]] == [
        ('"strong room": It opens.', "success")]
    editing.change_settings(cluster, {"address": "there", "token": "wrong"})
    answer = browser.post("/admin/experiments/cluster/", act, follow=True)
    assert [message.level_tag for message in answer.context["messages"]] == ["error"]
    editing.change_settings(cluster, {"address": "away", "token": "wrong"})
    answer = browser.post("/admin/experiments/cluster/", act, follow=True)
    assert [message.level_tag for message in answer.context["messages"]] == ["warning"]


def test_a_cluster_of_another_machine_is_not_rehearsed_here(browser, cluster) -> None:
    Cluster.objects.update(pinned_host="elsewhere")
    answer = browser.post("/admin/experiments/cluster/", {"action": "rehearse", "_selected_action": [cluster.pk]},
                          follow=True)
    assert "elsewhere" in str(next(iter(answer.context["messages"])))


def test_a_cluster_with_experiments_is_not_deleted(browser, cluster, make_experiment) -> None:
    address = f"/admin/experiments/cluster/{cluster.pk}/delete/"
    experiment = make_experiment(cluster=cluster)
    browser.post(address, {"post": "yes"})
    assert Cluster.objects.filter(pk=cluster.pk).exists()
    experiment.delete()
    browser.post(address, {"post": "yes"})
    assert not Cluster.objects.filter(pk=cluster.pk).exists()


@pytest.mark.parametrize("text", ['{"address": "\\ud800"}', '{"address": "\\u0000"}', '{"\\ud800": 1}'])
def test_a_text_that_nothing_can_store_is_refused_without_showing_the_kept_secrets(browser, cluster, text) -> None:
    answer = browser.post(page_of(cluster), form(cluster, settings=text))
    [said] = errors_of(answer)["settings"]
    assert "contains a character that no text has" in said
    assert "sesame" not in answer.content.decode()
    with pytest.raises(ConfigInvalid) as refused:
        editing.read_changed_settings(cluster, json.loads(text))
    assert "sesame" not in str(refused.value)
    assert token_of(cluster) == "sesame"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"address": ' + "[" * 200 + "]" * 200 + "}", "[]", "null", "0", '""'])
def test_settings_that_are_no_bearable_json_object_change_nothing(browser, cluster, text) -> None:
    [said] = errors_of(browser.post(page_of(cluster), form(cluster, settings=text)))["settings"]
    assert said.startswith("must be ")
    assert Cluster.objects.get().settings == cluster.settings


@pytest.mark.parametrize("field", ["group", "owner"])
def test_a_text_that_is_no_row_is_refused_at_its_field(browser, cluster, field) -> None:
    assert "valid choice" in " ".join(errors_of(browser.post(page_of(cluster), form(cluster, **{field: "abc"})))[field])


def test_more_rows_than_keys_are_refused_and_not_made(browser, cluster) -> None:
    answer = browser.post(page_of(cluster), form(cluster) | {"metadata-TOTAL_FORMS": 1_000_000_000,
                                                             "metadata-INITIAL_FORMS": 0})
    assert answer.status_code == 200
    formset = answer.context["inline_admin_formsets"][0].formset
    assert "at most 5 forms" in str(formset.non_form_errors())
    assert len(formset.forms) == 5
