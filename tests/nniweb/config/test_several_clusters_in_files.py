"""Files that name several clusters, and NNI's list of platforms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.config.cluster_defaults import ClusterDefaults
from nniweb.experiments.config.parsing import ParsedConfig
from nniweb.experiments.config.resolved import resolved_document

PLATFORMS = {"lab": "remote", "here": "local", "cloud": "kubernetes"}
LIST: list[dict[str, Any]] = [
    {"name": "lab", "upTo": 4, "trialGpuNumber": 2}, {"name": "here", "after": "lab", "weight": 2.5},
    {"name": "cloud", "after": ["lab", "here"], "cost": 0.5, "drained": True,
     "trialOptions": {"worker": {"dockerImage": "example/trial:1"}}}]


@pytest.fixture
def parse(folder: Path, v2: dict[str, Any]) -> Callable[..., ParsedConfig]:
    def parsed(changed: dict[str, Any], **arguments: Any) -> ParsedConfig:
        config = {key: value for key, value in {**v2, "trainingService": None, **changed}.items() if value is not None}
        return parse_experiment_config(config, folder, **{"cluster_platform": PLATFORMS.get, **arguments})

    return parsed


def errors(parse: Callable[..., ParsedConfig], changed: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigInvalid) as invalid:
        parse(changed)
    return {error.field: error.message for error in invalid.value.errors}


def test_several_clusters_are_read_and_the_first_is_the_experiments_own(parse: Callable[..., ParsedConfig]) -> None:
    settings = parse({"clusters": LIST}).settings
    assert (settings.cluster, settings.training_service) == ("lab", None)
    lab, here, cloud = settings.clusters
    assert (lab.name, lab.up_to, lab.weight, lab.after, lab.trial_gpu_number) == ("lab", 4, 1.0, (), 2)
    assert (here.after, here.weight, here.trial_gpu_number) == (("lab",), 2.5, None)
    assert (cloud.after, cloud.cost, cloud.drained) == (("lab", "here"), 0.5, True)
    assert cloud.trial_options is not None
    assert cloud.trial_options.model_dump(by_alias=True)["worker"]["dockerImage"] == "example/trial:1"


def test_what_was_read_can_be_written_and_read_again(parse: Callable[..., ParsedConfig], folder: Path) -> None:
    for changed in ({"clusters": LIST}, {"trainingService": [
            {"platform": "local"}, {"platform": "remote", "trialGpuNumber": 0, "machineList": [
                {"host": "10.0.0.1", "user": "ada", "sshKeyFile": "~/.ssh/id"}]}]}):
        settings = parse(changed, must_exist=False).settings
        again = parse_experiment_config(resolved_document(settings), folder, cluster_platform=PLATFORMS.get,
                                        must_exist=False)
        assert again.settings == settings


def test_nnis_list_of_platforms_is_read_with_what_each_has_for_itself(parse: Callable[..., ParsedConfig]) -> None:
    settings = parse({"trialCommand": None, "trainingService": [
        {"platform": "local", "trialGpuNumber": 1},
        {"platform": "remote", "trialCommand": "python3 there.py", "trialGpuNumber": 0,
         "machineList": [{"host": "10.0.0.1", "user": "ada", "password": "secret-word"}]}]}).settings
    assert settings.training_service is not None
    assert settings.training_service.platform == "local"
    assert settings.trial_command == "python3 there.py"
    local, remote = settings.clusters
    assert remote.training_service is not None
    assert remote.training_service.secrets == {"machineList[0].password": "secret-word"}
    assert remote.trial_gpu_number == 0
    assert "secret-word" not in str(resolved_document(settings))
    assert local.training_service == settings.training_service


def test_a_list_of_one_platform_is_that_platform(parse: Callable[..., ParsedConfig]) -> None:
    settings = parse({"trainingService": [{"platform": "local"}]}).settings
    assert settings.training_service is not None
    assert settings.clusters == ()


@pytest.mark.parametrize(("changed", "field", "words"), [
    ({"clusters": [{"name": "nowhere"}, {"name": "lab"}]}, "clusters[0].name", "no cluster named"),
    ({"clusters": [{"name": "lab"}, {"name": "nowhere"}]}, "clusters[1].name", "no cluster named"),
    ({"clusters": [{"name": "lab"}, {"name": "lab"}]}, "clusters[1].name", "in the list already"),
    ({"clusters": [{"name": "lab", "after": "cloud"}, {"name": "here"}]}, "clusters[0].after", "is not in the list"),
    ({"clusters": [{"name": "lab", "after": "here"}, {"name": "here", "after": "lab"}]}, "clusters[0].after",
     "leads back"),
    ({"clusters": [{"name": "lab", "weight": -1}]}, "clusters[0].weight", "at least 0"),
    ({"clusters": [{"name": "lab", "upTo": 0}]}, "clusters[0].upTo", "at least 1"),
    ({"clusters": [{"name": "lab", "drained": True}, {"name": "here", "weight": 0}]}, "clusters", "may get a trial"),
    ({"clusters": [{"name": "lab"}, {"name": "here", "trialOptions": {"imag": "x"}}]},
     "clusters[1].trialOptions.imag", "not a known field"),
    ({"clusters": LIST, "cluster": "lab"}, "cluster", "together with clusters"),
    ({"clusters": LIST, "trainingService": {"platform": "local"}}, "clusters", "together with trainingService"),
    ({"trainingService": ["local"]}, "trainingService[0]", "must be a group of fields"),
    ({"trainingService": [{"platform": "local"}, {"platform": "locla"}]}, "trainingService[1].platform", "locla"),
    ({"trainingService": [{"platform": "local"}, {"platform": "remote"}]}, "trainingService[1].machineList",
     "required"),
    ({"trainingService": [{"platform": "local"}, {"platform": "local", "trialCommand": "other"}]},
     "trainingService[1].trialCommand", "differs"),
    ({"trainingService": [{"platform": "local"}, {"platform": "local", "trialGpuNumber": "x"}]},
     "trainingService[1].trialGpuNumber", "whole number"),
])
def test_what_is_wrong_is_told_at_its_entry(parse: Callable[..., ParsedConfig], changed: dict[str, Any], field: str,
                                            words: str) -> None:
    found = errors(parse, changed)
    assert field in found, found
    assert words in found[field]


@pytest.mark.parametrize("entry", [
    {"name": ""}, {"nam": "lab"}, {"name": "lab", "upTo": 0}, "lab", {"name": "nowhere"}])
def test_a_wrong_entry_is_no_missing_platform(parse: Callable[..., ParsedConfig], entry: Any) -> None:
    found = errors(parse, {"clusters": [entry]})
    assert all(field.startswith("clusters[0]") for field in found), found


def test_what_says_where_to_run_names_the_list_too(parse: Callable[..., ParsedConfig]) -> None:
    assert "or clusters" in errors(parse, {})["trainingService"]


def test_an_error_in_the_options_of_the_first_entry_names_the_entry(parse: Callable[..., ParsedConfig]) -> None:
    found = errors(parse, {"clusters": [{"name": "lab", "trial_options": {"nope": 1}}, {"name": "here"}]})
    assert list(found) == ["clusters[0].trial_options.nope"]


def test_a_list_that_is_too_long_is_refused_before_any_cluster_is_asked_for(parse: Callable[..., ParsedConfig]) -> None:
    asked: list[str] = []

    def platform(name: str) -> str | None:
        asked.append(name)
        return None

    def defaults(name: str) -> ClusterDefaults:
        asked.append(name)
        return ClusterDefaults()

    with pytest.raises(ConfigInvalid) as invalid:
        parse({"clusters": [{"name": f"c{number}", "nope": 1} for number in range(10_000)]},
              cluster_platform=platform, cluster_defaults=defaults)
    assert [(error.field, error.message) for error in invalid.value.errors] == [
        ("clusters", "must have at most 20 entries")]
    assert not asked


def test_names_after_which_a_cluster_comes_are_bounded(parse: Callable[..., ParsedConfig]) -> None:
    found = errors(parse, {"clusters": [{"name": "lab", "after": [f"c{number}" for number in range(10_000)]}]})
    assert found == {"clusters[0].after": "must have at most 20 entries"}


def test_a_cluster_that_is_chosen_takes_the_place_of_the_list(parse: Callable[..., ParsedConfig]) -> None:
    parsed = parse({"clusters": LIST}, cluster="here")
    assert (parsed.settings.cluster, parsed.settings.clusters) == ("here", ())
    assert "clusters: not used; the cluster here was chosen instead." in parsed.notes


def test_each_entry_gets_the_options_that_its_cluster_gives(parse: Callable[..., ParsedConfig]) -> None:
    defaults = {"cloud": ClusterDefaults(options={"worker": {"dockerImage": "example/of:cluster"}})}
    parsed = parse({"clusters": [{"name": "lab"}, {"name": "cloud"}]},
                   cluster_defaults=lambda name: defaults.get(name, ClusterDefaults()))
    options = parsed.settings.clusters[1].trial_options
    assert options is not None
    assert options.model_dump(by_alias=True)["worker"]["dockerImage"] == "example/of:cluster"
