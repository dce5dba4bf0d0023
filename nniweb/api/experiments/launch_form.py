"""What a form that launches asks on the way: fields of a config's text, and points of a search space."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import APIException
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from nniweb.api.experiments.clone import MayLaunch
from nniweb.api.experiments.launch_request import ObjectField
from nniweb.experiments.config import ConfigError, ConfigInvalid
from nniweb.experiments.config.document import LARGEST_COUNT
from nniweb.experiments.config.fields.editing import EDITABLE, document_text, read_fields, write_fields
from nniweb.experiments.config.upgrade import upgraded
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import StrictSerializer
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput

MOST_POINTS = 500
#: Points times the characters of their space: what one request may make the server draw and write.
MOST_WORK = 5_000_000
LONGEST_SPACE = 200_000
#: Characters of a config whose fields are read while somebody types: reading more would keep the server busy.
LONGEST_CONFIG = 100_000


class SampleQuery(StrictSerializer):
    """A search space, and how many points of it."""

    search_space = ObjectField(help_text="As in a config file.")
    count = serializers.IntegerField(min_value=1, max_value=MOST_POINTS, default=20)
    seed = serializers.IntegerField(min_value=0, max_value=LARGEST_COUNT, default=0,
                                    help_text="The same seed gives the same points.")


class SampledPointsSerializer(serializers.Serializer[Any]):
    """Random points of a search space: what trials could receive."""

    seed = serializers.IntegerField()
    points = serializers.ListField(child=serializers.DictField())


class SpaceTooLarge(APIException):
    status_code = 413


class SampledPointsView(APIView):
    permission_classes = [IsAuthenticated, MayLaunch]

    @extend_schema(operation_id="search_space_sample", request=SampleQuery,
                   responses={200: SampledPointsSerializer, 400: ErrorsSerializer, 413: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Random points of a search space, each parameter by its own distribution. Stores nothing."""
        form = SampleQuery(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        size = int(request.META.get("CONTENT_LENGTH") or 0)
        if size > LONGEST_SPACE or size * wanted["count"] > MOST_WORK:
            raise SpaceTooLarge(f"The search space has {size} characters, which is too many for {wanted['count']} "
                                "points. Request fewer points.")
        try:
            space = parse_search_space(wanted["search_space"])
        except InvalidInput as invalid:
            raise ConfigInvalid([ConfigError(f"search_space.{problem.path}".rstrip("."), problem.message)
                                 for problem in invalid.problems]) from None
        import numpy as np  # here: the web process starts without it

        random = np.random.default_rng(wanted["seed"])
        points = [space.sample(random) for _ in range(wanted["count"])]
        return Response({"seed": wanted["seed"], "points": points})


class ConfigFieldsQuery(StrictSerializer):
    """A config's text, and what shall be changed in it."""

    config = serializers.CharField(allow_blank=True, trim_whitespace=False, max_length=LONGEST_CONFIG)
    changes = ObjectField(required=False, help_text="Name of a field -> its new value; null takes it out. Fields: "
                          f"{', '.join(EDITABLE)}.")
    convert = serializers.BooleanField(default=False, help_text="Convert NNI's v1 form into v2 first.")


class ConfigFieldsSerializer(serializers.Serializer[Any]):
    """The text, and the fields that a form can show."""

    config = serializers.CharField()
    values = serializers.DictField(help_text="The values of the fields in the text.")
    notes = serializers.ListField(child=serializers.CharField(), help_text="Fields that the conversion left out.")


class ConfigFieldsView(APIView):
    permission_classes = [IsAuthenticated, MayLaunch]

    @extend_schema(operation_id="config_fields", request=ConfigFieldsQuery,
                   responses={200: ConfigFieldsSerializer, 400: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Single fields of a config's text, after changing some; the rest stays as written. Stores nothing."""
        form = ConfigFieldsQuery(data=request.data)
        form.is_valid(raise_exception=True)
        text, changes = form.validated_data["config"], form.validated_data.get("changes") or {}
        if not isinstance(changes, dict) or not set(changes) <= set(EDITABLE):
            raise serializers.ValidationError({"changes": f"must be an object with fields of {', '.join(EDITABLE)}."})
        notes: list[str] = []
        if form.validated_data["convert"]:
            document, notes = upgraded(text)
            text = document_text(document)
        text = write_fields(text, changes)
        return Response({"config": text, "values": read_fields(text), "notes": notes})
