"""Beside Rita and Vera there is Max, a member in the group "vision"."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from nniweb.experiments.models import User
from nniweb.experiments.models.account import Role


@pytest.fixture
def max_(vision: Group) -> User:
    user = User.objects.create_user("max", "max@example.org", "a long pass phrase", role=Role.MEMBER)
    user.groups.add(vision)
    return user


@pytest.fixture
def browser() -> Callable[[User], Client]:
    def browser(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return browser
