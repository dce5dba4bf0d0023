"""The page that describes the REST interface and tries it out, drawn by Swagger UI from /api/schema/.

It needs no exception from the pages' Content-Security-Policy, nor does Django's admin.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET


@require_GET
def api_pages(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/api_pages.html")
