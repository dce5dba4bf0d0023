"""Clusters: list, set up, change, delete, rehearse. Their metadata are in cluster_metadata."""

import socket
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.documents.clusters import (
    FOR_ADMINISTRATORS,
    ClusterChangesSerializer,
    ClusterCheckResultSerializer,
    ClusterCheckSerializer,
    ClusterSerializer,
    FindingSerializer,
    NewClusterSerializer,
    gpu_holders,
)
from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.clusters import editing, saving
from nniweb.experiments.clusters.draft import changed_draft, new_draft, sign_test
from nniweb.experiments.clusters.rehearsal import OnAnotherHost, rehearse, rehearse_draft
from nniweb.experiments.models import Cluster, User
from nniweb.http.error_form import Conflict, ErrorsSerializer
from nniweb.http.permissions import signed_in_user


class ClusterView(generics.GenericAPIView[Cluster]):
    """A cluster the person may see, by its public id; 404 otherwise."""

    serializer_class: type[Any] = ClusterSerializer
    lookup_field = "public_id"
    lookup_url_kwarg = "cluster_id"

    def get_queryset(self) -> QuerySet[Cluster]:
        return visible_clusters(signed_in_user(self.request)).select_related("owner", "group").prefetch_related(
            "metadata", "machines").order_by("name")

    def documents(self, page: list[Cluster]) -> list[dict[str, Any]]:
        user = signed_in_user(self.request)
        machines = [machine for cluster in page for machine in cluster.machines.all()]
        return list(ClusterSerializer(page, many=True, context={"holders": gpu_holders(machines, user)}).data)

    def fresh(self, cluster: Cluster) -> dict[str, Any]:
        return self.documents([self.get_queryset().get(pk=cluster.pk)])[0]


def only_administrators(user: User, what: str) -> None:
    if not user.is_admin:
        raise PermissionDenied(f"Only administrators may {what}.")


class ClustersView(ClusterView):
    @extend_schema(operation_id="clusters_list", responses=ClusterSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Clusters that you may see, with their machines and the jobs that use each GPU."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(self.documents(list(page or [])))

    @extend_schema(operation_id="clusters_create", request=NewClusterSerializer,
                   responses={201: ClusterSerializer, 400: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Set up a cluster. Secrets in the settings are stored encrypted and never shown again."""
        user = signed_in_user(request)
        only_administrators(user, "set up clusters; an experiment file may have a trainingService section of its own")
        form = NewClusterSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        cluster = saving.set_up(form.validated_data, user, socket.gethostname())
        return Response(self.fresh(cluster), status=status.HTTP_201_CREATED)


class ClusterCheckView(ClusterView):
    pagination_class = None

    @extend_schema(operation_id="clusters_check", request=ClusterCheckSerializer,
                   responses={200: ClusterCheckResultSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Check settings before they are saved, and test the cluster that they describe. Nothing is changed."""
        user = signed_in_user(request)
        only_administrators(user, "check settings of clusters, which may name the server's files")
        form = ClusterCheckSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wish = form.validated_data
        if "cluster" in wish:
            cluster = get_object_or_404(self.get_queryset(), public_id=wish["cluster"])
            draft = changed_draft(cluster, wish["settings"])
        else:
            draft = new_draft(wish["platform"], wish["settings"])
        try:
            findings = rehearse_draft(draft, user) if wish["test"] else None
        except OnAnotherHost as error:
            raise Conflict(str(error)) from None
        return Response(ClusterCheckResultSerializer({
            "secrets_set": sorted(draft.section.secrets), "findings": findings,
            "tested": "" if findings is None else sign_test(draft.section, findings)}).data)


class ClusterDetailView(ClusterView):
    @extend_schema(operation_id="clusters_retrieve", responses=ClusterSerializer)
    def get(self, request: Request, cluster_id: str) -> Response:
        """One cluster."""
        return Response(self.documents([self.get_object()])[0])

    @extend_schema(operation_id="clusters_change", request=ClusterChangesSerializer,
                   responses={200: ClusterSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def patch(self, request: Request, cluster_id: str) -> Response:
        """Change a cluster. Experiments continue: the worker restarts the service and finds their trials again."""
        cluster, user = self.get_object(), signed_in_user(request)
        for field, what in FOR_ADMINISTRATORS.items():  # before any value is looked at: the answer would tell of it
            if isinstance(request.data, dict) and field in request.data:
                only_administrators(user, what)
        form = ClusterChangesSerializer(data=request.data, context={"user": user})
        form.is_valid(raise_exception=True)
        changes = dict(form.validated_data)
        if not user.is_admin and editing.is_made_by_a_launch(changes.get("name", "")):
            # taken or not: it would tell who has one
            raise ValidationError({"name": "The server uses names with this ending for its own clusters. Choose "
                                           "another name."})
        saving.save_changes(cluster, changes)
        return Response(self.fresh(cluster))

    @extend_schema(operation_id="clusters_delete", responses={204: None, 409: ErrorsSerializer})
    def delete(self, request: Request, cluster_id: str) -> Response:
        """Remove a cluster. Refused while experiments belong to it; the error names them."""
        editing.delete_cluster(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)


class ClusterRehearsalView(ClusterView):
    pagination_class = None

    @extend_schema(operation_id="clusters_rehearse", request=None,
                   responses={200: FindingSerializer(many=True), 409: ErrorsSerializer})
    def post(self, request: Request, cluster_id: str) -> Response:
        """Check everything that a trial needs, including an empty test trial. May take a minute."""
        try:
            findings = rehearse(self.get_object(), signed_in_user(request))
        except OnAnotherHost as error:
            raise Conflict(str(error)) from None
        return Response(FindingSerializer(findings, many=True).data)

    def check_object_permissions(self, request: Request, obj: Any) -> None:
        """Whoever may launch on it may rehearse: nothing is changed by it."""
