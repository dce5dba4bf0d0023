"""What an experiment may say of the image in which its trials run, on platforms that start trials on machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainingservice.cluster_settings import SettingsModel, TrialOptions
from trainingservice.reasons import Reason
from trainingservice.refused_values import matching
from trialkeeper import contract

#: An image's name: registry, path, tag, digest. Neither an option nor another kind of source than a registry: podman
#: would read folders and archives of the machine as the user of the trials.
_IMAGE = (r"(?!(?:containers-storage|dir|docker-archive|docker-daemon|oci|oci-archive|ostree|sif|tarball):)"
          r"[A-Za-z0-9](?:[A-Za-z0-9._:@-]|/(?!/))*")

Image = Annotated[str, Field(max_length=512), matching(
    _IMAGE, "the name of an image, such as docker.io/pytorch/pytorch:2.4.0 or localhost/train:1")]


class ContainerOptions(TrialOptions):
    """Base of the options of such a platform."""

    elsewhere: ClassVar[Mapping[str, str]] = {}

    docker_image: Image | None = Field(
        default=None, description="Image in which the trials' commands run, with podman or docker. Trials use its "
                                  "Python. Default: commands run on the machine itself. (Not in NNI.)")
    container_engine: Literal["auto", "podman", "docker"] | None = Field(
        default=None, description="What runs the image. auto: podman where there is one, else docker. Default: auto. "
                                  "(Not in NNI.)")
    image_pull: Literal["missing", "never", "always"] | None = Field(
        default=None, description="When the image is pulled. missing: where the machine does not have it. never. "
                                  "always: before the experiment's first trial on a machine. Default: missing. (Not in "
                                  "NNI.)")
    container_network: Literal["private", "host", "none"] | None = Field(
        default=None, description="Network of the containers. private: one of their own, as podman or docker makes it. "
                                  "host: that of the machine. none. Default: private. (Not in NNI.)")

    @model_validator(mode="after")
    def _fits_an_image(self) -> Self:
        if self.docker_image is None:
            for name in ("container_engine", "image_pull", "container_network"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{type(self).model_fields[name].alias} is about the image of the trials; give "
                                     "dockerImage as well, or remove it")
            return self
        for name in _CHOOSE_A_PYTHON:
            if getattr(self, name, None):
                raise ValueError(f"{type(self).model_fields[name].alias} and dockerImage cannot be given together, "
                                 "because trials use the Python of their image; keep one of them")
        if getattr(self, "nodes", 1) > 1 and self.network != contract.HOST_NETWORK:
            raise ValueError("nodes of a trial in an image find each other on the machines' own network only; write "
                             "containerNetwork: host")
        return self

    @property
    def engine(self) -> str:
        """One of contract.ENGINES."""
        return self.container_engine or contract.ANY_ENGINE

    @property
    def pull(self) -> str:
        """One of contract.PULLS."""
        return self.image_pull or contract.PULL_MISSING

    @property
    def network(self) -> str:
        """One of contract.NETWORKS."""
        return self.container_network or contract.PRIVATE


#: Options of platforms that choose a Python of the machine.
_CHOOSE_A_PYTHON = ("venv", "conda_env", "python_path", "server_python")


def image_of(options: TrialOptions) -> str | None:
    """The image in which a trial with these options runs on its machine; None where it runs in none."""
    return options.docker_image if isinstance(options, ContainerOptions) else None


#: Most patterns of images that may be permitted.
_MOST_PATTERNS = 200


class PermittedContainers(SettingsModel):
    """What trials of everybody may say of containers, where an administrator has decided it."""

    required: bool = Field(default=False, description="Whether each trial must name an image.")
    images: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=512)], ...], Field(
        min_length=1, max_length=_MOST_PATTERNS)] | None = Field(
            default=None, description="Images that may be named; a star stands for any text. Default: all.")
    networks: tuple[Literal["private", "host", "none"], ...] | None = Field(
        default=None, min_length=1, max_length=3, description="Values that containerNetwork may have. Default: all, "
                                                              "and with required: all but host.")

    def why_not(self, options: ContainerOptions) -> Reason | None:
        """Why trials with these options may not run; None where they may."""
        image = options.docker_image
        if image is None:
            return None if not self.required else Reason(
                "container_not_permitted", field="dockerImage", asked="", permitted=list(self.images or ("*",)))
        if self.images is not None and not any(_fits(pattern, image) for pattern in self.images):
            return Reason("container_not_permitted", field="dockerImage", asked=image, permitted=list(self.images))
        networks = self.networks or (("private", "none") if self.required else contract.NETWORKS)
        if options.network not in networks:
            return Reason("container_not_permitted", field="containerNetwork", asked=options.network,
                          permitted=list(networks))
        return None


def _fits(pattern: str, image: str) -> bool:
    """Whether a pattern fits the whole name. In time that does not grow with the number of stars beyond reason."""
    first, *others = pattern.split("*")
    if not others:
        return image == pattern
    if not image.startswith(first):
        return False
    rest, last = image[len(first):], others.pop()
    for part in others:
        _, found, rest = rest.partition(part) if part else ("", "*", rest)
        if not found:
            return False
    return rest.endswith(last)
