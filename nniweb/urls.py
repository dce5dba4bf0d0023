"""Addresses of pages, REST and admin. The keepers' addresses are in keeperapi, the websockets' in live."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView

from nniweb.middleware.csp_reports import csp_report
from nniweb.observability.views import metrics

handler500 = "nniweb.dashboard.failure.page_failed"
urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("nniweb.api.urls")),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("metrics", metrics),
    path("csp-report/", csp_report),
    path("nni/<slug:experiment_id>/api/v1/nni/", include("nniweb.nniapi.urls")),
    path("", include("nniweb.dashboard.urls")),
]
