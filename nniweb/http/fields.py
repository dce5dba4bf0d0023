"""Forms of request data: bodies and query parameters that refuse what they do not know."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from nniweb.experiments.config.fields.walk import nearest
from trainingservice.words.durations import parse_duration

#: What pagination and content negotiation read by themselves.
_READ_ELSEWHERE = frozenset({"page", "page_size", "format"})
LARGEST_REVISION = 2**63 - 1
#: Unknown fields of one body that are told.
_MOST_UNKNOWN = 20


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses unknown fields, with the nearest known one."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = [key for key in data if key not in self.fields]
            if unknown:
                known = [name for name, field in self.fields.items() if not field.read_only]
                raise serializers.ValidationError(
                    {key: f"is not a known field{nearest(key, known) or '; known fields: ' + ', '.join(known)}."
                     for key in unknown[:_MOST_UNKNOWN]})
        return super().to_internal_value(data)


class Query(StrictSerializer):
    """Query parameters of a request."""

    @classmethod
    def of(cls, request: Request) -> dict[str, Any]:
        """The checked values. Raises ValidationError naming the parameter."""
        fields = cls().fields
        given = {name: request.query_params.getlist(name) for name in request.query_params
                 if name not in _READ_ELSEWHERE or name in fields}
        data = {name: values if isinstance(fields.get(name), serializers.ListField) else values[-1]
                for name, values in given.items()}
        query = cls(data=data)
        query.is_valid(raise_exception=True)
        return dict(query.validated_data)


class TrueOrFalseField(serializers.BooleanField):
    """true or false, as JSON has them: neither a text nor a number, which may have been meant for another field."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError("must be true or false.")
        return data


class OneOfField(serializers.ChoiceField):
    """One of several words; a wrong one is told which there are."""

    def to_internal_value(self, data: Any) -> Any:
        try:
            return super().to_internal_value(data)
        except serializers.ValidationError:
            known = [str(choice) for choice in self.choices]
            raise serializers.ValidationError(
                f'"{data}" is none of {", ".join(known)}{nearest(str(data), known) or "."}') from None


class CommaListField(serializers.ListField):
    """Several values: given several times, or with commas between."""

    def to_internal_value(self, data: Any) -> list[Any]:
        texts = [data] if isinstance(data, str) else data
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise serializers.ValidationError("must be words separated by commas, or a list of words.")
        try:
            return super().to_internal_value([part for text in texts for part in text.split(",") if part])
        except serializers.ValidationError as error:
            if not isinstance(error.detail, dict):
                raise
            # by place in the list, which says nothing to whoever wrote words
            raise serializers.ValidationError([said for found in error.detail.values() for said in found]) from None


class RevisionField(serializers.IntegerField):
    """Only what changed after this revision."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=0, max_value=LARGEST_REVISION, **kwargs)


class DurationField(serializers.FloatField):
    """Seconds, or text such as "10m". Comes out as seconds."""

    def to_internal_value(self, data: Any) -> float:
        try:
            return float(parse_duration(data))
        except ValueError as error:
            raise serializers.ValidationError(f"{error}.") from None


class TagsField(serializers.ListField):
    """Words to find things by."""

    child = serializers.CharField(max_length=64)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=100, **kwargs)

    def to_internal_value(self, data: Any) -> list[str]:
        return list(dict.fromkeys(super().to_internal_value(data)))


class MetricField(serializers.CharField):
    """Name of a further metric; left out, the main one is meant."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=100, required=False, help_text=(
            "A further metric that trials report, such as latency in {\"default\": 0.9, \"latency\": 12}; the main "
            "metric if left out."), **kwargs)
