"""Metadata of clusters: NNI's keys, which say what the settings say, and the platform's own. No secret is shown."""

from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.clusters.cluster_views import ClusterView, only_administrators
from nniweb.documents.clusters import MetadataSerializer, NewMetadataSerializer
from nniweb.experiments.clusters.metadata import metadata_of, remove_metadata, set_metadata
from nniweb.experiments.models import Cluster
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.permissions import signed_in_user
from trainingservice.errors import TrainingServiceError
from trainingservice.platforms import load_platform


def metadata_documents(cluster: Cluster) -> list[dict[str, object]]:
    """Every key the platform knows, set or not."""
    try:
        load_platform(cluster.platform)
    except TrainingServiceError as error:
        raise NotFound(str(error)) from None
    return [asdict(metadatum) for metadatum in metadata_of(cluster)]


class ClusterMetadataListView(ClusterView):
    pagination_class = None

    @extend_schema(operation_id="clusters_metadata_list", responses=MetadataSerializer(many=True))
    def get(self, request: Request, cluster_id: str) -> Response:
        """Every key the platform knows, set or not."""
        return Response(MetadataSerializer(metadata_documents(self.get_object()), many=True).data)


class ClusterMetadataView(ClusterView):
    @extend_schema(operation_id="clusters_metadata_retrieve", responses=MetadataSerializer)
    def get(self, request: Request, cluster_id: str, key: str) -> Response:
        """One key. The value of a secret reads "set"; secrets within JSON of NNI's keys are left out."""
        return Response(self._document(self.get_object(), key))

    @extend_schema(operation_id="clusters_metadata_set", request=NewMetadataSerializer,
                   responses={200: MetadataSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def put(self, request: Request, cluster_id: str, key: str) -> Response:
        """Set it, after the platform has checked the value. Of NNI's keys: change the settings that they name."""
        cluster = self._changeable(request, key)
        form = NewMetadataSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        set_metadata(cluster, key, form.validated_data["value"])
        return Response(self._document(self.get_queryset().get(pk=cluster.pk), key))

    @extend_schema(operation_id="clusters_metadata_delete", responses={204: None, 409: ErrorsSerializer})
    def delete(self, request: Request, cluster_id: str, key: str) -> Response:
        """Remove the value of the key."""
        remove_metadata(self._changeable(request, key), key)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _changeable(self, request: Request, key: str) -> Cluster:
        cluster = self.get_object()
        only_administrators(signed_in_user(request), "change a cluster's metadata, which may name the server's files")
        self._document(cluster, key)  # an unknown key is not found
        return cluster

    @staticmethod
    def _document(cluster: Cluster, key: str) -> dict[str, object]:
        documents = metadata_documents(cluster)
        for document in documents:
            if document["key"] == key:
                return document
        known = ", ".join(str(document["key"]) for document in documents)
        raise NotFound(f"The {cluster.platform} platform has no metadata of this name. Its metadata: "
                       f"{known or 'none'}.")
