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
    """Fields for a launch of the same experiment: config, and one of base_directory, code_of and git."""

    name = serializers.CharField()
    config = serializers.CharField(help_text="YAML, without secrets: the experiment's own config text if it still "
                                             "describes the experiment, else the resolved config with later changes.")
    base_directory = serializers.CharField(help_text="Folder on the server; \"\" if the code is elsewhere.")
    code_of = serializers.CharField(help_text="Id of the experiment if the server has a copy of its code, else \"\".")
    file_count = serializers.IntegerField(allow_null=True, help_text="Of the copy of the code.")
    git = CodeFromGitSerializer(allow_null=True, help_text="The Git repository of code that was never fetched.")
    notes = serializers.ListField(child=serializers.CharField(), help_text="What has to be added before the launch.")


class MayLaunch(RolePermission):
    """Also for looking: viewers have no use for it."""

    message = "Your role is viewer, which cannot launch experiments. Ask an administrator for another role."

    def has_permission(self, request: Request, view: Any) -> bool:
        return request.user.is_authenticated and request.user.may_change


class ExperimentCloneView(ExperimentView):
    serializer_class = CloneSerializer
    permission_classes = [MayLaunch]

    @extend_schema(operation_id="experiments_clone", responses=CloneSerializer)
    def get(self, request: Request, experiment_id: str) -> Response:
        """The request that launches a clone of this experiment."""
        return Response(CloneSerializer(clone_of(self.get_object(), signed_in_user(request))).data)
