"""Tickets: the right of one session to see one TensorBoard, as a word in the address of its pages.

What TensorBoard answers is shown in a sandbox, as a page of no origin: it can read nothing of this server, and its
requests bring no cookies. So they bring the ticket. It holds while its session does, and while its person may see
the experiment.
"""

import secrets

from django.utils import timezone

from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.models import Session, TensorBoard, TensorBoardTicket, User
from nniweb.experiments.models.account import hash_of


def make_ticket(board: TensorBoard, user: User, session_key: str) -> str:
    """The word for the address. It is nowhere else: only its hash is kept."""
    word = secrets.token_urlsafe(24)
    TensorBoardTicket.objects.create(board=board, user=user, session_hash=hash_of(session_key),
                                     secret_hash=hash_of(word))
    return word


def board_of_ticket(public_id: str, word: str) -> TensorBoard | None:
    """What the ticket shows; None where it is no good (any more)."""
    ticket = TensorBoardTicket.objects.filter(secret_hash=hash_of(word), board__public_id=public_id).select_related(
        "board__experiment", "user").first()
    if ticket is None or not ticket.user.is_active:
        return None
    session = Session.objects.filter(session_key=ticket.session_hash, expire_date__gt=timezone.now()).first()
    # a session that goes on is void all the same where the password is another one by now
    if session is None or session.get_decoded().get("_auth_user_hash") != ticket.user.get_session_auth_hash():
        return None
    board = ticket.board
    return board if visible_experiments(ticket.user).filter(pk=board.experiment_id).exists() else None


def may_see(user: User, board: TensorBoard) -> bool:
    return visible_experiments(user).filter(pk=board.experiment_id).exists()
