"""Every error has the one form, and tells what to do."""

import logging

import pytest
from rest_framework.test import APIClient

from nniweb.api.clusters import platforms


def errors(answer) -> list[dict]:
    body = answer.json()
    assert set(body) == {"errors"}, body
    assert body["errors"]
    assert all(isinstance(error["field"], str) and error["message"] for error in body["errors"])
    return body["errors"]


def test_an_unknown_address_is_404_in_the_same_form(api) -> None:
    answer = api.get("/api/v1/experimnets/")
    assert answer.status_code == 404
    assert "/api/v1/experimnets/" in errors(answer)[0]["message"]
    assert APIClient().get("/api/v1/experimnets/").status_code == 401


def test_an_unknown_id_is_404(api) -> None:
    for address in ("experiments/nothing", "trials/nothing", "clusters/nothing", "experiments/nothing/trials",
                    "trials/nothing/metrics", "trials/nothing/output", "trials/nothing/files"):
        answer = api.get(f"/api/v1/{address}/")
        assert answer.status_code == 404, address
        errors(answer)


@pytest.mark.parametrize(("body", "field", "message"), [
    ({"trial_concurrency": 0}, "trial_concurrency", "must be at least 1."),
    ({"trial_concurrency": 10**9}, "trial_concurrency", "must be at most 99999."),
    ({"trial_concurrency": "x"}, "trial_concurrency", "must be a whole number."),
    ({"trial_concurrency": "9" * 2000}, "trial_concurrency", "has too many digits."),
    ({"trial_concurrency": None}, "trial_concurrency", "must not be null."),
    ({"name": 5.5, "tags": "x"}, "tags", "must be a list."),
    ({"name": []}, "name", "must be text."),
    ({"name": "x" * 300}, "name", "must have at most 200 characters."),
    ({"search_space": 5}, "search_space", "must be an object of JSON."),
    ([1], "", "The body must be an object of JSON."),
])
def test_a_wrong_value_is_told_in_the_words_of_config_files(api, make_experiment, body, field: str, message: str
                                                            ) -> None:
    answer = api.patch(f"/api/v1/experiments/{make_experiment().public_id}/", body)
    assert answer.status_code == 400
    assert {"field": field, "message": message} in errors(answer)


def test_a_value_that_is_missing_is_told_so(api) -> None:
    assert {"field": "username", "message": "is required."} in errors(api.post("/api/v1/users/", {}))


def test_a_wrong_method_is_405(api) -> None:
    answer = api.put("/api/v1/experiments/", {})
    assert answer.status_code == 405
    errors(answer)


def test_a_wrong_content_type_is_415(api) -> None:
    answer = api.post("/api/v1/experiments/", "a: 1", content_type="application/yaml")
    assert answer.status_code == 415
    errors(answer)


@pytest.mark.parametrize("body", ["{", "", '{"config": NaN}', b"\xff\xfe", "[" * 5000 + "]" * 5000,
                                  '{"a":' * 2000 + "1" + "}" * 2000, '{"tags": ["\\ud800"]}', '{"name": "a\\u0000b"}',
                                  "[1]", '"text"', "null", "3"])
def test_a_body_that_cannot_be_read_is_400_and_changes_nothing(api, make_experiment, body) -> None:
    experiment = make_experiment()
    answer = api.patch(f"/api/v1/experiments/{experiment.public_id}/", body, content_type="application/json")
    if body in ("", "null"):  # nothing to change
        assert answer.status_code in (200, 400)
    else:
        assert answer.status_code == 400
        errors(answer)
    experiment.refresh_from_db()
    assert experiment.name == "quadratic"


def test_a_body_that_is_too_large_is_413(api, settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    answer = api.post("/api/v1/experiments/", {"config": "x" * 200})
    assert answer.status_code == 413
    errors(answer)


def test_the_text_at_fault_is_named(api, make_experiment) -> None:
    experiment = make_experiment()
    answer = api.patch(f"/api/v1/experiments/{experiment.public_id}/", '{"tags": ["a", "\\udc00"]}',
                       content_type="application/json")
    assert "tags[1]" in errors(answer)[0]["message"]


def test_an_unknown_field_gets_the_nearest_known_one(api, make_experiment) -> None:
    experiment = make_experiment()
    answer = api.patch(f"/api/v1/experiments/{experiment.public_id}/", {"trial_concurency": 3})
    assert answer.status_code == 400
    error = errors(answer)[0]
    assert error["field"] == "trial_concurency"
    assert "trial_concurrency" in error["message"]


@pytest.mark.parametrize(("query", "field"), [
    ("stauts=RUNNING", "stauts"), ("status=NO", "status"), ("order=size", "order"), ("page=0", "page"),
    ("page=x", "page"), ("page_size=1001", "page_size"), ("page_size=-1", "page_size"), ("archived=maybe", "archived"),
    ("q=a%00b", "q")])
def test_a_wrong_query_parameter_is_named(api, query, field) -> None:
    answer = api.get(f"/api/v1/experiments/?{query}")
    assert answer.status_code == 400
    assert errors(answer)[0]["field"].partition("[")[0].partition(".")[0] == field


def test_a_page_beyond_the_last_is_404(api) -> None:
    answer = api.get("/api/v1/experiments/?page=2")
    assert answer.status_code == 404
    assert "last one is 1" in errors(answer)[0]["message"]


def test_a_failure_of_the_server_shows_no_traceback_and_is_logged(api, monkeypatch, caplog) -> None:
    def fails() -> list[str]:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr(platforms, "platform_names", fails)
    with caplog.at_level(logging.ERROR):
        answer = api.get("/api/v1/platforms/")
    assert answer.status_code == 500
    assert "secret" not in answer.content.decode()
    assert "Traceback" not in answer.content.decode()
    errors(answer)
    assert any("a secret detail" in str(record.exc_info) for record in caplog.records)


def test_a_word_that_is_none_of_those_there_are_is_told_these(api: APIClient) -> None:
    for path, field, words in (("experiments/?status=DONE,RUNING", "status", "did you mean RUNNING?"),
                               ("experiments/?archived=maybe", "archived", '"maybe" is none of false, true, all.')):
        [error] = api.get(f"/api/v1/{path}").json()["errors"]
        assert error["field"] == field
        assert words in error["message"]
