"""Rita is the administrator, Max a member, Vera a viewer; Max and Vera are in the group "vision"."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from rest_framework.test import APIClient

from nniweb.experiments.models import ApiToken, User
from nniweb.experiments.models.account import Role, Scope


@pytest.fixture
def vision(db: None) -> Group:
    return Group.objects.create(name="vision")


@pytest.fixture
def rita(db: None) -> User:
    return User.objects.create_user("rita", role=Role.ADMIN)


@pytest.fixture
def max_(vision: Group) -> User:
    user = User.objects.create_user("max", "max@example.org", "a long pass phrase", role=Role.MEMBER)
    user.groups.add(vision)
    return user


@pytest.fixture
def vera(vision: Group) -> User:
    user = User.objects.create_user("vera", role=Role.VIEWER)
    user.groups.add(vision)
    return user


@pytest.fixture
def with_token() -> Callable[..., APIClient]:
    """A client with a new token of this person."""

    def with_token(user: User, scope: Scope = Scope.ADMIN, **fields: Any) -> APIClient:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {ApiToken.make(user, 'notebook', scope, **fields)}")
        return client

    return with_token


@pytest.fixture
def browser() -> Callable[[User], Client]:
    def browser(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return browser
