"""Budgets: how much people, groups, tokens and experiments may use, and what an hour costs."""

import math
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.documents.budgets import BudgetSerializer, ForecastSerializer, budget_documents, forecast_document
from nniweb.experiments.budgets.budget_settings import delete_budget, delete_price, set_budget, set_price
from nniweb.experiments.budgets.concerned import budgets_of
from nniweb.experiments.budgets.forecast import forecast
from nniweb.experiments.budgets.visible import may_change_budget, seen_by, visible_budgets, visible_forecast
from nniweb.experiments.models import ApiToken, Budget, Cluster, Experiment, Price, User
from nniweb.experiments.models.limits import LARGEST_AMOUNT, LARGEST_COUNT
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import Query, StrictSerializer
from nniweb.http.permissions import AdminOnly, RolePermission, signed_in_user

_DEAREST_HOUR = 999_999


class _Decimal(serializers.FloatField):
    """A number of at least 0 that is kept with so many decimal places. One that is more than 0 does not become 0."""

    default_error_messages = {"too_small": "The smallest amount that can be kept is {smallest}. Give that or more, or "
                                           "0."}

    def __init__(self, largest: int, decimal_places: int, **kwargs: Any) -> None:
        super().__init__(min_value=0, max_value=largest, required=False, **kwargs)
        self._largest, self._decimal_places = largest, decimal_places

    def to_internal_value(self, data: Any) -> Any:
        try:
            value = super().to_internal_value(data)
        except OverflowError:  # a whole number of hundreds of digits
            self.fail("max_value", max_value=self._largest)
        if not math.isfinite(value):
            self.fail("invalid")
        exact = Decimal(str(value))
        if not 0 <= exact <= self._largest:
            return exact  # the validators refuse it; it may be too large to be rounded
        kept = round(exact, self._decimal_places)
        if exact and not kept:
            self.fail("too_small", smallest=f"{Decimal(1).scaleb(-self._decimal_places):f}")
        return kept


class _Amount(_Decimal):
    """Of hours or money; null: no limit."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(LARGEST_AMOUNT, 4, allow_null=True, **kwargs)


class BudgetChangesSerializer(StrictSerializer):
    """Changes of a budget; null removes a limit."""

    gpu_hours = _Amount()
    cpu_hours = _Amount()
    trials = serializers.IntegerField(min_value=0, max_value=LARGEST_COUNT, allow_null=True, required=False)
    wall_hours = _Amount()
    money = _Amount()


class NewBudgetSerializer(BudgetChangesSerializer):
    """A new budget: of a user, a group, a token or an experiment, or (none of them) of each person without a budget of
    their own for the period.
    """

    user = serializers.SlugRelatedField("username", queryset=User.objects.all(), allow_null=True, required=False)
    group = serializers.SlugRelatedField("name", queryset=Group.objects.all(), allow_null=True, required=False)
    token = serializers.PrimaryKeyRelatedField(queryset=ApiToken.objects.all(), allow_null=True, required=False,
                                               help_text="Id of the token.")
    experiment = serializers.SlugRelatedField("public_id", queryset=Experiment.objects.filter(deleted_at=None),
                                              allow_null=True, required=False)
    period = serializers.ChoiceField(choices=Budget.Period.values, default=Budget.Period.MONTH.value)


class BudgetQuery(Query):
    experiment = serializers.CharField(required=False, help_text="Id of an experiment: only budgets towards which its "
                                                                 "trials count. Default: all that you may see.")


class BudgetsBaseView(generics.GenericAPIView[Budget]):
    """One of the budgets that concern whoever asks."""

    permission_classes = [RolePermission]
    serializer_class: type[Any] = BudgetSerializer
    lookup_field = "pk"
    lookup_url_kwarg = "budget_id"
    queryset = Budget.objects.none()

    def get_queryset(self) -> QuerySet[Budget]:
        return visible_budgets(signed_in_user(self.request))

    def check_object_permissions(self, request: Request, obj: Any) -> None:
        if request.method != "GET" and not may_change_budget(signed_in_user(request), obj):
            raise PermissionDenied("Only administrators may change this budget.")

    def answer(self, budget: Budget, code: int = status.HTTP_200_OK) -> Response:
        return Response(budget_documents([seen_by(budget, signed_in_user(self.request))], timezone.now())[0], code)


class BudgetsView(BudgetsBaseView):
    @extend_schema(operation_id="budgets_list", parameters=[BudgetQuery], responses=BudgetSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Budgets that concern you, and how they stand; all for administrators."""
        reader, wish = signed_in_user(request), BudgetQuery.of(request)
        budgets = self.get_queryset()
        if "experiment" in wish:
            helds = budgets_of(experiment_of(request, wish["experiment"]))
            budgets = budgets.filter(pk__in=[held.budget.pk for held in helds])
        page = self.paginate_queryset(budgets) or []
        return self.get_paginated_response(budget_documents([seen_by(one, reader) for one in page], timezone.now()))

    @extend_schema(operation_id="budgets_create", request=NewBudgetSerializer,
                   responses={201: BudgetSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Set a budget. Running trials continue; new trials wait while it is used up. For administrators."""
        if not signed_in_user(request).is_admin:
            raise PermissionDenied(AdminOnly.message)
        form = NewBudgetSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return self.answer(set_budget(Budget(), form.validated_data), status.HTTP_201_CREATED)


class BudgetView(BudgetsBaseView):
    @extend_schema(operation_id="budgets_retrieve", responses=BudgetSerializer)
    def get(self, request: Request, budget_id: int) -> Response:
        """One budget, and how it stands."""
        return self.answer(self.get_object())

    @extend_schema(operation_id="budgets_change", request=BudgetChangesSerializer,
                   responses={200: BudgetSerializer, 400: ErrorsSerializer})
    def patch(self, request: Request, budget_id: int) -> Response:
        """Change its limits. For administrators; an experiment's own budget also for whoever may change the experiment.
        """
        budget = self.get_object()
        form = BudgetChangesSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return self.answer(set_budget(budget, form.validated_data))

    @extend_schema(operation_id="budgets_delete", responses={204: None})
    def delete(self, request: Request, budget_id: int) -> Response:
        """Remove it. As changing it."""
        delete_budget(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)


class ExperimentForecastView(generics.GenericAPIView[Experiment]):
    serializer_class = ForecastSerializer
    queryset = Experiment.objects.none()

    @extend_schema(operation_id="experiments_forecast", responses=ForecastSerializer)
    def get(self, request: Request, experiment_id: str) -> Response:
        """What an experiment has taken, what it is expected to take, and the budgets that concern it and you."""
        now = timezone.now()
        found = forecast(experiment_of(request, experiment_id), now)
        return Response(forecast_document(visible_forecast(found, signed_in_user(request)), now))


class PriceSerializer(serializers.Serializer[Any]):
    """What an hour costs on a cluster, or on one machine of it."""

    id = serializers.IntegerField()
    cluster = serializers.CharField(source="cluster.name")
    machine = serializers.CharField(help_text="\"\" of all machines without a price of their own.")
    gpu_hour = serializers.FloatField(help_text="Of one GPU.")
    cpu_hour = serializers.FloatField(help_text="Of one CPU.")


class _PricePerHour(_Decimal):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(_DEAREST_HOUR, 6, **kwargs)


class PriceChangesSerializer(StrictSerializer):
    """Changes of a price."""

    gpu_hour = _PricePerHour()
    cpu_hour = _PricePerHour()


class NewPriceSerializer(PriceChangesSerializer):
    """A new price."""

    cluster = serializers.SlugRelatedField("name", queryset=Cluster.objects.all())
    machine = serializers.CharField(required=False, allow_blank=True, max_length=255)


class PricesBaseView(generics.GenericAPIView[Price]):
    """One of all prices."""

    permission_classes = [AdminOnly]
    serializer_class: type[Any] = PriceSerializer
    lookup_field = "pk"
    lookup_url_kwarg = "price_id"

    def get_queryset(self) -> QuerySet[Price]:
        return Price.objects.select_related("cluster").order_by("pk")


class PricesView(PricesBaseView):
    @extend_schema(operation_id="prices_list", responses=PriceSerializer(many=True))
    def get(self, request: Request) -> Response:
        """All prices. For administrators."""
        return self.get_paginated_response(
            PriceSerializer(self.paginate_queryset(self.get_queryset()), many=True).data)

    @extend_schema(operation_id="prices_create", request=NewPriceSerializer,
                   responses={201: PriceSerializer, 400: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Set what an hour costs. It applies to attempts that end from now on. For administrators."""
        form = NewPriceSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(PriceSerializer(set_price(Price(), form.validated_data)).data, status=status.HTTP_201_CREATED)


class PriceView(PricesBaseView):
    @extend_schema(operation_id="prices_change", request=PriceChangesSerializer,
                   responses={200: PriceSerializer, 400: ErrorsSerializer})
    def patch(self, request: Request, price_id: int) -> Response:
        """Change it. For administrators."""
        form = PriceChangesSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(PriceSerializer(set_price(self.get_object(), form.validated_data)).data)

    @extend_schema(operation_id="prices_delete", responses={204: None})
    def delete(self, request: Request, price_id: int) -> Response:
        """Remove it. For administrators."""
        delete_price(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)
