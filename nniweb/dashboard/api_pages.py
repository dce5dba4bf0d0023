"""The pages that describe the REST interface, from /api/schema/: Swagger UI tries it out, Redoc is for reading.

Swagger UI needs no exception from the pages' Content-Security-Policy, nor does Django's admin. Redoc makes style
elements: two texts of them are let in by their hashes; the rest it writes as rules (CSSOM), which no policy forbids.
"""

from csp.decorators import csp_update
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET


@require_GET
def api_pages(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/api_pages.html")


#: The empty style element, into which Redoc's rules are written, and a fixed one of its own.
STYLES_OF_REDOC = ["'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
                   "'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='"]


@csp_update({"style-src": STYLES_OF_REDOC})
@require_GET
def api_reference(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/api_reference.html")
