"""Platforms that are installed: what they need to be told, and how they differ."""

from dataclasses import asdict
from functools import lru_cache
from typing import Any

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from nniweb.experiments.config.fields.description import KINDS, describe
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import ClusterSettings
from trainingservice.platforms import (
    ALIASES,
    BrokenPlatform,
    is_multi_phase,
    known_platforms,
    load_platform,
    platform_names,
)


class MetadataKeySerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    meaning = serializers.CharField()
    is_secret = serializers.BooleanField()
    changeable_while_running = serializers.BooleanField()


class PlatformFieldSerializer(serializers.Serializer[Any]):
    """A field of a platform's section in config files, for forms."""

    name = serializers.CharField(help_text="The name in config files; loginNode.host and machineList[].host are inside "
                                           "other fields.")
    of_cluster = serializers.BooleanField(help_text="true: the field identifies or configures the cluster; false: it "
                                                    "is an option of one experiment.")
    type = serializers.CharField(help_text="In words.")
    kind = serializers.ChoiceField(KINDS, help_text=(
        "The kind of form control. A group holds the fields below its name, a group_list entries with such fields, a "
        "text_map names with texts. json: values without a control of their own."))
    is_required = serializers.BooleanField()
    default = serializers.JSONField(allow_null=True)
    choices = serializers.ListField(child=serializers.CharField())
    description = serializers.CharField(allow_blank=True)
    is_secret = serializers.BooleanField()
    is_inner = serializers.BooleanField(help_text="The field is inside a group or a list that has an entry of its own.")


class PlatformSerializer(serializers.Serializer[Any]):
    """A platform."""

    name = serializers.CharField()
    aliases = serializers.ListField(child=serializers.CharField(), help_text=(
        "Other names of the platform in config files."))
    settings_schema = serializers.DictField(help_text="JSON Schema of a cluster's settings; secrets are writeOnly.")
    options_schema = serializers.DictField(help_text="JSON Schema of an experiment's options for its trials.")
    declares_settings = serializers.BooleanField(help_text=(
        "false: the platform has no model of its settings, so that nothing can be said of their fields."))
    fields_of_section = PlatformFieldSerializer(many=True, help_text="The fields of both, as a form needs them.")
    metadata = MetadataKeySerializer(many=True)
    shares_code_folder = serializers.BooleanField(help_text="Trials run in the code folder itself.")
    ships_code = serializers.BooleanField(help_text="Code is packed and sent to the platform, so its size is limited.")
    keepers_report = serializers.BooleanField(help_text=(
        "Trials run under a keeper. Otherwise the platform reports their results itself, and their output is not "
        "stored."))
    needs_public_url = serializers.BooleanField(help_text="Trials must be able to call this server.")
    suspends_jobs = serializers.BooleanField(help_text="The platform may suspend a running trial and run it again "
                                                       "later.")
    pinned_to_host = serializers.BooleanField(help_text=(
        "The platform is the server's own machine; only people with the permission may use it."))
    multi_phase = serializers.BooleanField(
        allow_null=True, help_text="A running trial can be given further parameters; null where that depends on the "
                                   "cluster.")
    reuse_mode_meaning = serializers.CharField(help_text="What NNI's reuseMode does here.")


def document(platform: type[TrainingService]) -> dict[str, Any]:
    """A platform: the schemas of its settings and options, and its metadata keys."""
    return {
        "name": platform.platform,
        "aliases": sorted(alias for alias, name in ALIASES.items() if name == platform.platform),
        "settings_schema": _schema_of(platform.settings_model),
        "options_schema": _schema_of(platform.options_model),
        "declares_settings": platform.settings_model is not ClusterSettings,
        "fields_of_section": section_fields(platform),
        "metadata": [{"key": key, "meaning": meaning, "is_secret": key in platform.secret_metadata_keys,
                      "changeable_while_running": (key in platform.metadata_changeable_while_running
                                                   or key in platform.nni_metadata())}
                     for key, meaning in platform.metadata_meanings().items()],
        "shares_code_folder": platform.shares_code_folder,
        "ships_code": platform.ships_code,
        "keepers_report": platform.keepers_report,
        "needs_public_url": platform.keepers_report and platform.needs_public_url,
        "suspends_jobs": platform.suspends_jobs,
        "pinned_to_host": platform.pinned_to_host,
        "multi_phase": is_multi_phase(platform),
        "reuse_mode_meaning": platform.settings_model.reuse_mode_meaning,
    }


def section_fields(platform: type[TrainingService]) -> list[dict[str, Any]]:
    """The fields that a file's trainingService section may have beside platform."""
    return [{**field, "of_cluster": of_cluster}
            for model, of_cluster in ((platform.settings_model, True), (platform.options_model, False))
            for field in _fields_of(model)]


# A class says the same as long as it lives; to find it out takes a tenth of a second for all platforms. Keyed by the
# class, so that one that is registered anew under the same name is asked again.
@lru_cache(maxsize=100)
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Its JSON Schema. Callers share it and change nothing in it."""
    return model.model_json_schema()


@lru_cache(maxsize=100)
def _fields_of(model: type[BaseModel]) -> list[dict[str, Any]]:
    """As ``_schema_of``."""
    return [asdict(field) for field in describe(model)]


class PlatformView(APIView):
    @extend_schema(operation_id="platforms_retrieve", responses=PlatformSerializer)
    def get(self, request: Request, name: str) -> Response:
        """One platform."""
        known = known_platforms()  # without loading the others, which takes seconds the first time
        if name not in known:
            raise NotFound(f"There is no platform {name}. There are: {', '.join(sorted(known))}.")
        try:
            platform = load_platform(name)
        except BrokenPlatform as error:
            raise NotFound(str(error)) from None
        return Response(PlatformSerializer(document(platform)).data)


class PlatformsView(APIView):
    @extend_schema(operation_id="platforms_list", responses=PlatformSerializer(many=True))
    def get(self, request: Request) -> Response:
        """All platforms that can be used on this server."""
        found = [document(load_platform(name)) for name in platform_names()]
        return Response(PlatformSerializer(found, many=True).data)
