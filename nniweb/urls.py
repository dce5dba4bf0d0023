"""Addresses of pages, REST and admin. The keepers' addresses are in keeperapi, the websockets' in live."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("", include("nniweb.dashboard.urls")),
]
