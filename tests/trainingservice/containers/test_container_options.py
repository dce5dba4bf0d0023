"""What files may say of the image of the trials, and what the owner of the server's machine permits of it."""

import pytest
from pydantic import ValidationError

from trainingservice.containers.options import PermittedContainers, image_of
from trainingservice.dlts.config import DltsTrialOptions
from trainingservice.local.config import LocalConfigMetadata, LocalTrialOptions
from trainingservice.refused_values import refusals
from trainingservice.remote.config import RemoteTrialOptions

IMAGE = "docker.io/pytorch/pytorch:2.4.0"


def refused(model, **given):
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given)
    return refusals(caught.value)[0]


@pytest.mark.parametrize("model", [LocalTrialOptions, RemoteTrialOptions])
def test_an_image_is_named_as_on_other_platforms(model):
    options = model.model_validate({"dockerImage": IMAGE})
    assert (options.docker_image, options.engine, options.pull, options.network) == (
        IMAGE, "auto", "missing", "private")
    assert image_of(options) == IMAGE
    assert image_of(model()) is None
    assert "dockerImage" in DltsTrialOptions.model_json_schema()["properties"]


@pytest.mark.parametrize("image", ["registry.example:5000/a/b:1", "docker:dind", "localhost/oci:1",
                                   "a@sha256:" + "0" * 64, "docker.io/library/dir:latest"])
def test_names_with_a_registry_a_tag_or_a_digest_are_taken(image):
    assert LocalTrialOptions.model_validate({"dockerImage": image}).docker_image == image


@pytest.mark.parametrize("image", ["", "--privileged", "a b", "docker://x;y", "a\n", "$(id)", "x" * 513, "docker://a",
                                   "dir:/home/somebody", "dir:home/somebody", "oci-archive:/a.tar", "oci:/a",
                                   "docker-archive:/a", "containers-storage:a", "docker-daemon:a:1", "a//b"])
def test_what_is_no_name_of_an_image_is_refused(image):
    assert refused(LocalTrialOptions, dockerImage=image)[0] == "dockerImage"


def test_what_is_about_an_image_needs_one():
    for name, value in (("containerEngine", "podman"), ("imagePull", "never"), ("containerNetwork", "none")):
        assert f"{name} is about the image" in refused(RemoteTrialOptions, **{name: value})[1]
    assert refused(LocalTrialOptions, dockerImage=IMAGE, containerEngine="lxc")[0] == "containerEngine"


@pytest.mark.parametrize(("name", "value"), [("venv", "/v"), ("condaEnv", "/c"), ("pythonPath", "/p"),
                                             ("serverPython", True)])
def test_an_image_has_a_python_of_its_own(name, value):
    assert f"{name} and dockerImage cannot be given together" in refused(
        LocalTrialOptions, dockerImage=IMAGE, **{name: value})[1]


def test_several_nodes_need_the_network_of_their_machines():
    assert "containerNetwork: host" in refused(RemoteTrialOptions, dockerImage=IMAGE, nodes=2)[1]
    RemoteTrialOptions.model_validate({"dockerImage": IMAGE, "nodes": 2, "containerNetwork": "host"})


def test_without_a_word_of_an_administrator_everything_is_permitted_and_nothing_required():
    permitted = PermittedContainers()
    for options in (LocalTrialOptions(), LocalTrialOptions(docker_image=IMAGE, container_network="host")):
        assert permitted.why_not(options) is None


@pytest.mark.parametrize(("pattern", "image", "fits"), [
    (IMAGE, IMAGE, True), ("docker.io/pytorch/*", IMAGE, True), ("*", IMAGE, True), ("*:2.4.0", IMAGE, True),
    ("docker.io/*:2.4.0", IMAGE, True), ("docker.io/pytorch/pytorch", IMAGE, False), ("localhost/*", IMAGE, False),
    ("docker.io/*:2.5*", IMAGE, False), ("pytorch/*", IMAGE, False), ("*a*a*", "aba", True), ("a*a", "a", False)])
def test_patterns_of_images(pattern, image, fits):
    said = PermittedContainers(images=(pattern,)).why_not(LocalTrialOptions(docker_image=image))
    assert (said is None) is fits


def test_an_image_can_be_required_and_the_machine_s_network_is_then_not_given():
    permitted = LocalConfigMetadata.model_validate_json(
        '{"containers": {"required": true, "images": ["localhost/*"]}}').containers
    said = permitted.why_not(LocalTrialOptions())
    assert (said.code, said.arguments["asked"], said.arguments["permitted"]) == (
        "container_not_permitted", "", ["localhost/*"])
    assert "Give dockerImage; permitted are" in said
    said = permitted.why_not(LocalTrialOptions(docker_image=IMAGE))
    assert (said.arguments["field"], said.arguments["asked"]) == ("dockerImage", IMAGE)
    ours = {"docker_image": "localhost/train:1"}
    assert permitted.why_not(LocalTrialOptions(**ours)) is None
    assert permitted.why_not(LocalTrialOptions(**ours, container_network="host")).arguments["field"] == \
        "containerNetwork"
    assert PermittedContainers(required=True, networks=("host",)).why_not(
        LocalTrialOptions(**ours, container_network="host")) is None
