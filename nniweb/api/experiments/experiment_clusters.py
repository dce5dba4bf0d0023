"""The clusters of an experiment that runs on several."""

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import ExperimentView
from nniweb.documents.experiment_clusters import ExperimentClusterSerializer, clusters_document


class ExperimentClustersView(ExperimentView):
    pagination_class = None

    @extend_schema(operation_id="experiments_clusters", responses=ExperimentClusterSerializer(many=True))
    def get(self, request: Request, experiment_id: str) -> Response:
        """What runs on each cluster and what it cost; empty for an experiment on one. PATCH of the experiment with
        clusters changes the list.
        """
        return Response(clusters_document(self.get_object(), timezone.now()))
