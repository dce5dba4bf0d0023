"""A group by its name, among those of the person who asks: which others there are is not theirs to learn."""

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import QuerySet
from rest_framework import serializers

from nniweb.experiments.access.visibility import groups_to_share_with


class OwnGroupField(serializers.SlugRelatedField):  # type: ignore[type-arg]  # not when running
    """The serializer's context has the person as ``user``; without one there is no group."""

    default_error_messages = {"does_not_exist": "You are not in a group of this name."}

    def __init__(self, **options: Any) -> None:
        super().__init__("name", queryset=Group.objects.all(), **options)

    def get_queryset(self) -> QuerySet[Group]:
        person = self.context.get("user")
        return groups_to_share_with(person) if person is not None else Group.objects.none()
