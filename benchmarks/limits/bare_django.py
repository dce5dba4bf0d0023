"""The least that a start can take: Django with one view under Daphne, in one process.

    python benchmarks/limits/bare_django.py PORT        # prints "listening" when it does
"""

import sys

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path

settings.configure(ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, SECRET_KEY="of a benchmark")


def hello(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("hello")


urlpatterns = [path("", hello)]

if __name__ == "__main__":
    from daphne.server import Server
    from django.core.asgi import get_asgi_application

    Server(application=get_asgi_application(), endpoints=[f"tcp:port={int(sys.argv[1])}:interface=127.0.0.1"],
           action_logger=None, verbosity=0, ready_callable=lambda: print("listening", flush=True)).run()
