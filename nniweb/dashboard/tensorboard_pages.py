"""The pages of a TensorBoard: one of ours until it listens, then its own, passed on and shown in a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_GET, require_http_methods

from nniweb.dashboard.page_data import the_visitor
from nniweb.experiments.models import TensorBoard, User
from nniweb.storage import own_files
from nniweb.tensorboard import boards, runner
from nniweb.tensorboard.tickets import board_of_ticket, make_ticket, may_see

if TYPE_CHECKING:  # when running, loaded with the first page: few servers show one
    import requests

#: What it answers is no page of this server: it has no origin, so it reads no cookie and nothing of other addresses.
#: Its own scripts need eval, and styles that they make.
POLICY = ("sandbox allow-scripts allow-forms allow-downloads; default-src 'none'; script-src 'self' 'unsafe-eval'; "
          "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
          "media-src 'self' data: blob:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
#: Stands in for the storage that pages without an origin do not have.
STORAGE = "nniweb-storage.js"
_SENT_ON = ("Accept", "Accept-Encoding", "Content-Type", "X-XSRF-Protected")
_SENT_BACK = ("Content-Type", "Content-Encoding", "Content-Length")
#: Seconds until it is connected; between two pieces of an answer.
_TIMEOUTS = (5.0, 120.0)
_PIECE = 64 * 1024


@require_GET
def open_board(request: HttpRequest, public_id: str) -> HttpResponse:
    """Leads to it as soon as it listens; until then a page that says so and comes again."""
    user = the_visitor(request)
    board = TensorBoard.objects.select_related("experiment").filter(public_id=public_id).first()
    if board is None or not may_see(user, board):
        raise Http404
    boards.note_use(board)
    address = runner.address_of(board)
    if address is None:
        return render(request, "dashboard/tensorboard.html", {
            "board": board, "experiment": board.experiment, "has_failed": runner.has_failed(board)})
    if request.session.session_key is None:
        request.session.save()
    ticket = make_ticket(board, user, str(request.session.session_key))
    return HttpResponseRedirect(reverse("tensorboard-page", args=[public_id, ticket]))


@login_not_required  # the ticket is asked for here: a page without an origin brings no cookies
@csrf_exempt  # for the same reason, and nothing is done but what the ticket allows: to look
@require_http_methods(["GET", "POST", "OPTIONS"])
def tensorboard_page(request: HttpRequest, public_id: str, ticket: str, path: str) -> HttpResponseBase:
    """Whatever TensorBoard answers at this path."""
    board = board_of_ticket(public_id, ticket)
    if board is None:
        return _without_ticket(request, public_id)
    if request.method == "OPTIONS":  # asked by browsers before requests with a header of TensorBoard's
        return _guarded(HttpResponse(status=204, headers={
            "Access-Control-Allow-Methods": "GET, POST", "Access-Control-Allow-Headers": "*",
            "Access-Control-Max-Age": "600"}))
    boards.note_use(board)
    if path == STORAGE:
        script = own_files.FOLDER / "static" / "js" / "pages" / "tensorboard_storage.js"
        return _guarded(HttpResponse(script.read_bytes(), content_type="text/javascript; charset=utf-8"))
    address = runner.address_of(board)
    if address is None:
        return HttpResponseRedirect(reverse("tensorboard", args=[public_id])) if not path else \
            _guarded(HttpResponse("TensorBoard is being started.", status=503, content_type="text/plain"))
    return _guarded(_passed_on(request, f"http://127.0.0.1:{address.port}{address.prefix}/{quote(path)}", not path))


def _without_ticket(request: HttpRequest, public_id: str) -> HttpResponse:
    if request.method != "GET":
        # with the token against forged requests like any other address, although nothing would come of it
        return csrf_protect(lambda request: HttpResponse(
            "This ticket is not valid, or its TensorBoard has ended.", status=401, content_type="text/plain"))(request)
    address = reverse("tensorboard", args=[public_id])
    if not isinstance(request.user, User):
        return redirect_to_login(address)
    board = TensorBoard.objects.select_related("experiment").filter(public_id=public_id).first()
    if board is None or not may_see(request.user, board):
        raise Http404
    return HttpResponseRedirect(address)


def _passed_on(request: HttpRequest, address: str, is_first_page: bool) -> HttpResponseBase:
    import requests

    headers = {name: request.headers[name] for name in _SENT_ON if name in request.headers}
    if is_first_page:
        headers["Accept-Encoding"] = "identity"  # something is put into it
    query = request.META.get("QUERY_STRING", "")
    session = requests.Session()
    session.trust_env = False  # no proxy leads to this machine itself
    try:
        answer = session.request(str(request.method), f"{address}?{query}" if query else address, headers=headers,
                                 data=request.body if request.method == "POST" else None, stream=True,
                                 timeout=_TIMEOUTS, allow_redirects=False)
    except requests.RequestException:
        session.close()
        return HttpResponse("TensorBoard does not answer. Open it again.", status=502, content_type="text/plain")
    back = {name: answer.headers[name] for name in _SENT_BACK if name in answer.headers}
    if is_first_page and back.get("Content-Type", "").startswith("text/html"):
        with answer, session:
            content = answer.content.replace(b"<head>", f'<head><script src="{STORAGE}"></script>'.encode(), 1)
        back.pop("Content-Length", None)
        return HttpResponse(content, status=answer.status_code, headers=back)
    return StreamingHttpResponse(_Pieces(answer, session), status=answer.status_code, headers=back)


class _Pieces:
    """The answer's content, as it comes and as it is encoded."""

    def __init__(self, answer: requests.Response, session: requests.Session) -> None:
        self._answer, self._session = answer, session
        self._pieces: Iterator[bytes] = answer.raw.stream(_PIECE, decode_content=False)

    def close(self) -> None:
        with suppress(Exception):
            self._answer.close()
            self._session.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await sync_to_async(lambda: next(self._pieces, None), thread_sensitive=True)()) is not None:
            yield piece


def _guarded(response: HttpResponseBase) -> HttpResponseBase:
    response["Content-Security-Policy"] = POLICY
    response["X-Content-Type-Options"] = "nosniff"
    # a page of no origin is refused by browsers where it asks for a group of pages of its origin
    response["Cross-Origin-Opener-Policy"] = "unsafe-none"
    response["Referrer-Policy"] = "no-referrer"
    response["Access-Control-Allow-Origin"] = "null"  # the origin of sandboxed pages, and of no site
    return response
