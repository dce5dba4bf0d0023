"""What a report of an error says: where it happened and in what words, never what variables held."""

from types import FrameType
from typing import Any

from django.http import HttpRequest
from django.views.debug import SafeExceptionReporterFilter


class NoValues(SafeExceptionReporterFilter):
    """For the page of NNIWEB_DEBUG and for mails: no local variable, no field that was sent.

    By their names Django tells only some of them for secrets, and a cluster's settings hold passwords under any name.
    """

    def is_active(self, request: HttpRequest | None) -> bool:
        return True

    def get_post_parameters(self, request: HttpRequest | None) -> Any:
        return dict.fromkeys(request.POST, self.cleansed_substitute) if request is not None else {}

    def get_traceback_frame_variables(self, request: HttpRequest | None, tb_frame: FrameType) -> Any:
        return []
