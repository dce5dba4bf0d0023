"""Who is told of what, and how: a person's own rules, and what became of the messages."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import generics, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.documents.own_group import OwnGroupField
from nniweb.experiments.models import NotificationDelivery, NotificationRule, User
from nniweb.experiments.models.notification import Channel, DeliveryState, Occasion
from nniweb.experiments.notifications import notification_rules
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import StrictSerializer, TrueOrFalseField
from nniweb.http.permissions import signed_in_user


class NotificationSerializer(serializers.Serializer[Any]):
    """A notification rule. Address and secret of a webhook are never shown again."""

    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    channel = serializers.ChoiceField(choices=Channel.choices)
    address = serializers.SerializerMethodField(help_text=(
        "The mail address of the account, or the scheme and host of a webhook."))
    experiment = serializers.CharField(source="experiment.public_id", allow_null=True, default=None, help_text=(
        "Notify only about this experiment. If neither an experiment nor a group is given, the rule applies to your "
        "own experiments."))
    group = serializers.CharField(source="group.name", allow_null=True, default=None, help_text=(
        "Notify only about this group's experiments."))
    on_done = serializers.BooleanField()
    on_failed = serializers.BooleanField()
    on_best = serializers.BooleanField()
    enabled = serializers.BooleanField()
    created_at = serializers.DateTimeField()

    @extend_schema_field(str)
    def get_address(self, rule: NotificationRule) -> str:
        return rule.owner.email if rule.channel == Channel.EMAIL else rule.shown_url


class MadeNotificationSerializer(NotificationSerializer):
    """A new rule, with the secret that signs its messages."""

    secret = serializers.CharField(help_text="Shown only in this answer; \"\" for mail.")


class NotificationChangesSerializer(StrictSerializer):
    """Changes of a notification rule."""

    name = serializers.CharField(max_length=100, allow_blank=True, required=False)
    url = serializers.CharField(max_length=2000, required=False, write_only=True, help_text="Address of a webhook.")
    secret = serializers.CharField(
        min_length=notification_rules.SHORTEST_SECRET, max_length=notification_rules.LONGEST_SECRET, required=False,
        write_only=True, trim_whitespace=False, help_text="Signs the messages of a webhook.")
    on_done = TrueOrFalseField(required=False, help_text="Notify when an experiment is DONE.")
    on_failed = TrueOrFalseField(required=False, help_text="Notify when an experiment ends with ERROR.")
    on_best = TrueOrFalseField(required=False, help_text=(
        "Notify when a trial's result is better than all earlier ones. At most one message is sent every ten minutes "
        "per experiment."))
    enabled = TrueOrFalseField(required=False)


class NewNotificationSerializer(NotificationChangesSerializer):
    """A new notification rule. A webhook needs a url; if there is no secret, one is created."""

    channel = serializers.ChoiceField(choices=Channel.choices)
    experiment = serializers.CharField(max_length=12, allow_null=True, default=None, help_text="Id of one experiment.")
    group = OwnGroupField(allow_null=True, default=None)
    name = serializers.CharField(max_length=100, allow_blank=True, default="")
    on_done = TrueOrFalseField(default=True)
    on_failed = TrueOrFalseField(default=True)
    on_best = TrueOrFalseField(default=False)
    enabled = TrueOrFalseField(default=True)


class TrySerializer(serializers.Serializer[Any]):
    """One attempt to send a message."""

    at = serializers.DateTimeField()
    seconds = serializers.FloatField()
    status = serializers.IntegerField(allow_null=True, help_text="HTTP status; null if there was no answer.")
    answer = serializers.CharField(help_text="The beginning of the answer, or why the message could not be sent.")


class DeliverySerializer(serializers.Serializer[Any]):
    """A message and its state."""

    id = serializers.UUIDField(source="public_id", help_text="The message contains this id, too.")
    event = serializers.ChoiceField(source="occasion", choices=Occasion.choices)
    experiment = serializers.CharField(source="experiment.public_id", allow_null=True, default=None)
    state = serializers.ChoiceField(choices=DeliveryState.choices)
    message = serializers.CharField(help_text="Why the message was given up or withdrawn.")
    created_at = serializers.DateTimeField()
    due_at = serializers.DateTimeField(help_text="Earliest time at which a waiting message is sent.")
    ended_at = serializers.DateTimeField(allow_null=True)
    try_count = serializers.IntegerField()
    tries = TrySerializer(many=True, help_text="The last ten.")
    body = serializers.CharField(help_text="The JSON text that is sent.")


class NotificationView(generics.GenericAPIView[NotificationRule]):
    """A rule of the person's own, by its id; 404 otherwise."""

    serializer_class: type[Any] = NotificationSerializer
    lookup_field = "public_id"
    lookup_url_kwarg = "rule_id"

    def get_queryset(self) -> QuerySet[NotificationRule]:
        return rules_of(signed_in_user(self.request))


def rules_of(user: User) -> QuerySet[NotificationRule]:
    return NotificationRule.objects.filter(owner=user).select_related("owner", "experiment", "group").order_by("pk")


def deliveries_of(rule: NotificationRule) -> QuerySet[NotificationDelivery]:
    """The newest first."""
    return rule.deliveries.select_related("experiment", "rule").order_by("-pk")


class NotificationsView(NotificationView):
    @extend_schema(operation_id="notifications_list", responses=NotificationSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Your own notifications, the oldest first."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(NotificationSerializer(page, many=True).data)

    @extend_schema(operation_id="notifications_create", request=NewNotificationSerializer,
                   responses={201: MadeNotificationSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Set up a notification about ends of experiments or new best results, by mail or webhook."""
        form = NewNotificationSerializer(data=request.data, context={"user": signed_in_user(request)})
        form.is_valid(raise_exception=True)
        rule, secret = notification_rules.create_rule(signed_in_user(request), form.validated_data)
        document = {**NotificationSerializer(rule).data, "secret": secret}
        return Response(document, status=status.HTTP_201_CREATED)


class NotificationDetailView(NotificationView):
    @extend_schema(operation_id="notifications_retrieve", responses=NotificationSerializer)
    def get(self, request: Request, rule_id: str) -> Response:
        """One notification."""
        return Response(NotificationSerializer(self.get_object()).data)

    @extend_schema(operation_id="notifications_change", request=NotificationChangesSerializer,
                   responses={200: NotificationSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def patch(self, request: Request, rule_id: str) -> Response:
        """Change a notification. Waiting messages are withdrawn when it is switched off."""
        rule = self.get_object()
        form = NotificationChangesSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        notification_rules.change_rule(rule, form.validated_data)
        return Response(NotificationSerializer(rule).data)

    @extend_schema(operation_id="notifications_delete", responses={204: None})
    def delete(self, request: Request, rule_id: str) -> Response:
        """Remove a notification with the record of its messages. Waiting messages are not sent."""
        notification_rules.delete_rule(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)


class NotificationTestView(NotificationView):
    @extend_schema(operation_id="notifications_test", request=None,
                   responses={202: DeliverySerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, rule_id: str) -> Response:
        """Send a test message. A worker sends it within a second or two; the list of deliveries shows the outcome."""
        delivery = notification_rules.send_test(self.get_object())
        return Response(DeliverySerializer(delivery).data, status=status.HTTP_202_ACCEPTED)


class DeliveriesView(NotificationView):
    serializer_class = DeliverySerializer

    @extend_schema(operation_id="notifications_deliveries_list", responses=DeliverySerializer(many=True))
    def get(self, request: Request, rule_id: str) -> Response:
        """Sent and waiting messages, newest first. They are kept for 30 days after their end."""
        page = self.paginate_queryset(deliveries_of(self.get_object()))  # type: ignore[arg-type]  # rows of its rule
        return self.get_paginated_response(DeliverySerializer(page, many=True).data)


class DeliverySendAgainView(NotificationView):
    serializer_class = DeliverySerializer

    @extend_schema(operation_id="notifications_deliveries_send_again", request=None,
                   responses={202: DeliverySerializer, 409: ErrorsSerializer})
    def post(self, request: Request, rule_id: str, delivery_id: str) -> Response:
        """Send a message again that was given up, with the same delivery id."""
        delivery = get_object_or_404(deliveries_of(self.get_object()), public_id=delivery_id)
        notification_rules.send_again(delivery)
        delivery.refresh_from_db()
        return Response(DeliverySerializer(delivery).data, status=status.HTTP_202_ACCEPTED)
