"""TensorBoards of an experiment: start one of chosen trials, list those that are open, stop one."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.experiments.models import TensorBoard
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import StrictSerializer
from nniweb.http.permissions import signed_in_user
from nniweb.tensorboard import boards


class NewTensorBoardSerializer(StrictSerializer):
    trials = serializers.ListField(child=serializers.CharField(max_length=12), min_length=1, max_length=1000,
                                   help_text=f"Ids; at most {boards.MOST_TRIALS}.")


class TensorBoardSerializer(serializers.ModelSerializer[TensorBoard]):
    """A TensorBoard that is open. Its process is started when its page is opened."""

    id = serializers.CharField(source="public_id")
    trials = serializers.ListField(child=serializers.CharField(), help_text="Ids, in order of sequence.")
    url = serializers.SerializerMethodField(help_text="Its page, for people who are signed in.")
    created_by = serializers.CharField(source="created_by.username", allow_null=True, default=None)
    message = serializers.CharField(help_text="A problem of the TensorBoard or of some of its trials; usually \"\".")

    class Meta:
        model = TensorBoard
        fields = ["id", "trials", "url", "created_by", "created_at", "used_at", "message"]

    def get_url(self, board: TensorBoard) -> str:
        return reverse("tensorboard", args=[board.public_id])


class TensorBoardsView(generics.GenericAPIView[TensorBoard]):
    serializer_class: type[Any] = TensorBoardSerializer
    queryset = TensorBoard.objects.none()
    pagination_class = None

    @extend_schema(operation_id="experiments_tensorboards_list", responses=TensorBoardSerializer(many=True))
    def get(self, request: Request, experiment_id: str) -> Response:
        """Open TensorBoards. A TensorBoard that is not used for half an hour (a setting) is closed."""
        return Response(TensorBoardSerializer(boards.boards_of(experiment_of(request, experiment_id)), many=True).data)

    @extend_schema(operation_id="experiments_tensorboards_create", request=NewTensorBoardSerializer,
                   responses={201: TensorBoardSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Open a TensorBoard of these trials. If one of the same trials is open, it is returned."""
        experiment = experiment_of(request, experiment_id)
        self.check_object_permissions(request, experiment)
        form = NewTensorBoardSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        board = boards.start(experiment, form.validated_data["trials"], signed_in_user(request))
        return Response(TensorBoardSerializer(board).data, status=status.HTTP_201_CREATED)


class TensorBoardView(generics.GenericAPIView[TensorBoard]):
    serializer_class: type[Any] = TensorBoardSerializer
    queryset: QuerySet[TensorBoard] = TensorBoard.objects.none()

    @extend_schema(operation_id="experiments_tensorboards_stop", responses={204: None})
    def delete(self, request: Request, experiment_id: str, board_id: str) -> Response:
        """Close a TensorBoard. The files of its trials are not changed."""
        experiment = experiment_of(request, experiment_id)
        self.check_object_permissions(request, experiment)
        boards.stop(get_object_or_404(boards.boards_of(experiment), public_id=board_id))
        return Response(status=status.HTTP_204_NO_CONTENT)
