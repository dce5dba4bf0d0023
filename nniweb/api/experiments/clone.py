"""An earlier experiment as the start of the next one."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import ExperimentView
from nniweb.documents.experiments import CodeFromGitSerializer
from nniweb.experiments.launch.cloning import clone_of
from nniweb.http.permissions import RolePermission, signed_in_user


class CloneSerializer(serializers.Serializer[Any]):
    """What a launch takes, to have the experiment again: config, and one of base_directory, code_of and git."""

    name = serializers.CharField()
    config = serializers.CharField(help_text="YAML, without secrets: the experiment's own text where that still says "
                                   "what it is, else what it was resolved to, with what was changed since.")
    base_directory = serializers.CharField(help_text="Folder on the server; \"\" where the code is elsewhere.")
    code_of = serializers.CharField(help_text="Id of the experiment, where its code is kept here; \"\" where not.")
    file_count = serializers.IntegerField(allow_null=True, help_text="Of the code that is kept.")
    git = CodeFromGitSerializer(allow_null=True, help_text="Where the code was to be fetched from, if it never was.")
    notes = serializers.ListField(child=serializers.CharField(), help_text="What has to be added.")


class MayLaunch(RolePermission):
    """Also for looking: viewers have no use for it."""

    message = "Your role is viewer: you can look, not launch. Ask an administrator."

    def has_permission(self, request: Request, view: Any) -> bool:
        return request.user.is_authenticated and request.user.may_change


class ExperimentCloneView(ExperimentView):
    serializer_class = CloneSerializer
    permission_classes = [MayLaunch]

    @extend_schema(operation_id="experiments_clone", responses=CloneSerializer)
    def get(self, request: Request, experiment_id: str) -> Response:
        """What to launch to have this experiment again, perhaps with changes."""
        return Response(CloneSerializer(clone_of(self.get_object(), signed_in_user(request))).data)
