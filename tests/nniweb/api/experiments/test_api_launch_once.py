"""A launch with a key of the caller's is carried out once, however often it is sent."""

import pytest

from nniweb.experiments.errors import Refused
from nniweb.experiments.launch import launching
from nniweb.experiments.models import Experiment, User


def launch(api, config, code_folder, key: str):
    return api.post("/api/v1/experiments/", {"config": config, "base_directory": str(code_folder)},
                    headers={"Idempotency-Key": key})


def test_a_second_try_finds_what_the_first_one_launched(api, config, code_folder) -> None:
    first, second = (launch(api, config, code_folder, "one") for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert launch(api, config, code_folder, "two").status_code == 201
    assert Experiment.objects.count() == 2


@pytest.mark.slow
def test_without_a_key_each_request_launches(api, config, code_folder) -> None:
    assert [launch(api, config, code_folder, "").status_code for _ in range(2)] == [201, 201]


@pytest.mark.slow
def test_a_try_that_was_refused_may_be_mended_under_the_same_key(api, config, code_folder) -> None:
    assert launch(api, "trialConcurrency: 0", code_folder, "one").status_code == 400
    assert launch(api, config, code_folder, "one").status_code == 201


@pytest.mark.parametrize("in_the_meantime", ["nothing", pytest.param("a quota was used up", marks=pytest.mark.slow)])
def test_a_second_try_that_comes_while_the_first_is_under_way_finds_it_too(api, config, code_folder, monkeypatch,
                                                                           in_the_meantime) -> None:
    keep_code = launching.keep_code

    def first_try_ends(*arguments):  # after all checks of the second try, before it creates anything
        Experiment.objects.filter(pk=first.pk).update(launch_key=f"{first.owner_id}:one")
        if in_the_meantime != "nothing":
            raise Refused("You may have one experiment at a time.", "quota")
        return keep_code(*arguments)

    first = Experiment.objects.get(public_id=launch(api, config, code_folder, "").json()["id"])
    monkeypatch.setattr(launching, "keep_code", first_try_ends)
    assert launch(api, config, code_folder, "one").json()["id"] == first.public_id
    assert Experiment.objects.count() == 1


@pytest.mark.slow
def test_keys_of_different_people_have_nothing_to_do_with_each_other(api, config, code_folder) -> None:
    launch(api, config, code_folder, "one")
    other = User.objects.create_superuser("bob", role="admin")
    api.force_authenticate(other)
    answer = launch(api, config, code_folder, "one")
    assert (answer.status_code, answer.json()["owner"]) == (201, "bob")


@pytest.mark.parametrize("key", ["x" * 101, "ü", "a\tb"])
def test_a_key_that_is_none_is_refused(api, config, code_folder, key) -> None:
    answer = launch(api, config, code_folder, key)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "Idempotency-Key")
    assert not Experiment.objects.exists()
