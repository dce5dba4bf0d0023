"""A commit that does not wait for the disk, and those after it that do."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection, transaction

from nniweb.database import later_flush
from nniweb.database.later_flush import flushed_later
from nniweb.experiments.models import Cluster

pytestmark = pytest.mark.django_db(transaction=True)


def commits_wait() -> bool:
    """Whether a commit of this connection returns when the disk has it."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA synchronous" if connection.vendor == "sqlite" else "SHOW synchronous_commit")
        [value] = cursor.fetchone()
    return value in (2, "on")


def make_and_fail() -> None:
    with flushed_later():
        Cluster.objects.create(name="here", platform="local")
        raise ValueError("no")


def test_only_its_own_commit_does_not_wait_for_the_disk() -> None:
    assert commits_wait()
    with flushed_later():
        Cluster.objects.create(name="here", platform="local")
        assert not commits_wait()
    assert commits_wait()
    assert Cluster.objects.filter(name="here").exists()


def test_what_fails_is_undone_and_the_next_commit_waits() -> None:
    with pytest.raises(ValueError, match="no"):
        make_and_fail()
    assert commits_wait()
    assert not Cluster.objects.filter(name="here").exists()


def test_within_another_transaction_it_is_a_part_of_that_one() -> None:
    with transaction.atomic():
        with flushed_later():
            Cluster.objects.create(name="here", platform="local")
        assert commits_wait()


def test_a_connection_that_cannot_be_told_to_wait_again_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("on PostgreSQL the setting ends with the transaction")
    waits = later_flush._sqlite_waits

    def fails_once(when: str) -> None:
        if when == "FULL":
            raise OperationalError("disk I/O error")
        waits(when)

    with monkeypatch.context() as patch:
        patch.setattr(later_flush, "_sqlite_waits", fails_once)
        with pytest.raises(OperationalError, match="disk I/O error"), flushed_later():
            Cluster.objects.create(name="here", platform="local")
    assert commits_wait()
