"""Groups (projects): who sees and steers what is shared with them. Members see their own; administrators change."""

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Prefetch, QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import generics, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.experiments.access import accounts
from nniweb.experiments.models import User
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import StrictSerializer
from nniweb.http.permissions import AdminToChange, signed_in_user


class GroupSerializer(serializers.Serializer[Any]):
    """A group."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    members = serializers.SerializerMethodField(help_text="User names.")

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_members(self, group: Group) -> list[str]:
        return [user.username for user in group.user_set.all()]


class NewGroupSerializer(StrictSerializer):
    """A new group."""

    name = serializers.CharField(max_length=150)
    members = serializers.SlugRelatedField("username", many=True, queryset=User.objects.all(), required=False,
                                           help_text="User names.")


class GroupChangesSerializer(StrictSerializer):
    """Changes of a group."""

    name = serializers.CharField(max_length=150, required=False)
    members = serializers.SlugRelatedField("username", many=True, queryset=User.objects.all(), required=False,
                                           help_text="User names of all members.")


class GroupsBaseView(generics.GenericAPIView[Group]):
    """A group the person is in; any for administrators; 404 otherwise."""

    permission_classes = [AdminToChange]
    serializer_class: type[Any] = GroupSerializer
    lookup_field = "pk"
    lookup_url_kwarg = "group_id"

    def get_queryset(self) -> QuerySet[Group]:
        user = signed_in_user(self.request)
        found = Group.objects.all() if user.is_admin else Group.objects.filter(user=user)
        return found.prefetch_related(Prefetch("user_set", User.objects.order_by("username"))).order_by("name")

    def fresh(self, group: Group) -> dict[str, Any]:
        return dict(GroupSerializer(self.get_queryset().get(pk=group.pk)).data)


class GroupsView(GroupsBaseView):
    @extend_schema(operation_id="groups_list", responses=GroupSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Your groups with their members; all groups for administrators."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(GroupSerializer(page, many=True).data)

    @extend_schema(operation_id="groups_create", request=NewGroupSerializer,
                   responses={201: GroupSerializer, 400: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Make a group. For administrators."""
        form = NewGroupSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        group = accounts.create_group(form.validated_data["name"], form.validated_data.get("members", ()))
        return Response(self.fresh(group), status=status.HTTP_201_CREATED)


class GroupView(GroupsBaseView):
    @extend_schema(operation_id="groups_retrieve", responses=GroupSerializer)
    def get(self, request: Request, group_id: int) -> Response:
        """One group."""
        return Response(GroupSerializer(self.get_object()).data)

    @extend_schema(operation_id="groups_change", request=GroupChangesSerializer,
                   responses={200: GroupSerializer, 400: ErrorsSerializer})
    def patch(self, request: Request, group_id: int) -> Response:
        """Rename a group, or replace its members. For administrators."""
        form = GroupChangesSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        group = self.get_object()
        accounts.change_group(group, **form.validated_data)
        return Response(self.fresh(group))

    @extend_schema(operation_id="groups_delete", responses={204: None, 409: ErrorsSerializer})
    def delete(self, request: Request, group_id: int) -> Response:
        """Remove a group. Its experiments stay with their owners. Refused while it has clusters. For admins."""
        accounts.delete_group(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)
