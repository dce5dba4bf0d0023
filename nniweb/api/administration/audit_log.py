"""The audit log: who did what. For administrators, to read alone."""


from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.experiments.models import AuditEntry
from nniweb.http.fields import Query
from nniweb.http.permissions import AdminOnly


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    """An entry of the audit log: an action of a person."""

    class Meta:
        model = AuditEntry
        fields = ["id", "at", "who", "who_id", "via", "token_id", "address", "action", "kind", "target", "name",
                  "details"]
        extra_kwargs = {
            "who": {"help_text": "Name of the person at that time; \"\" if nobody was signed in."},
            "via": {"help_text": "How the person was identified: by a session (page, admin), a token or a command."},
            "token_id": {"help_text": "Id of that token, which may have been removed since; null without one."},
            "address": {"help_text": "The network address that the request came from."},
            "action": {"help_text": "For example sign-in, experiment.launch, token.create."},
            "target": {"help_text": "Id in REST of the object of the action."},
            "details": {"help_text": "Details of the action; never the value of a secret."},
        }


class AuditQuery(Query):
    who = serializers.CharField(required=False, help_text="User name.")
    action = serializers.CharField(required=False, help_text=(
        "The whole action, or its beginning up to a dot (experiment)."))
    target = serializers.CharField(required=False, help_text="Id of the object of the action.")
    address = serializers.CharField(required=False)
    token_id = serializers.IntegerField(required=False, min_value=1, max_value=2**63 - 1, help_text=(
        "Id of a token: what was done with it."))
    since = serializers.DateTimeField(required=False)
    before = serializers.DateTimeField(required=False)


class AuditView(generics.GenericAPIView[AuditEntry]):
    permission_classes = [AdminOnly]
    serializer_class = AuditEntrySerializer
    queryset = AuditEntry.objects.order_by("-pk")

    @extend_schema(operation_id="audit_list", parameters=[AuditQuery], responses=AuditEntrySerializer(many=True))
    def get(self, request: Request) -> Response:
        """The audit log, latest entries first. For administrators."""
        wanted = AuditQuery.of(request)
        found = self.get_queryset()
        for name in ("who", "target", "address", "token_id"):
            if name in wanted:
                found = found.filter(**{name: wanted[name]})
        if "action" in wanted:
            found = found.filter(action=wanted["action"]) | found.filter(action__startswith=f"{wanted['action']}.")
        if "since" in wanted:
            found = found.filter(at__gte=wanted["since"])
        if "before" in wanted:
            found = found.filter(at__lt=wanted["before"])
        return self.get_paginated_response(AuditEntrySerializer(self.paginate_queryset(found), many=True).data)
