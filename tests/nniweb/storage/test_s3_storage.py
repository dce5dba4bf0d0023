"""Objects of an S3-compatible service serve as files."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.files.base import ContentFile

from tests.fakes.s3_service import S3Service

pytest.importorskip("minio", reason="the package minio is missing: pip install -r requirements/s3.txt")

from nniweb.storage.s3_storage import S3Storage  # noqa: E402


@pytest.fixture
def service() -> Iterator[S3Service]:
    service = S3Service("nni", "key")
    service.start()
    yield service
    service.close()


def storage_of(service: S3Service, access_key: str = "key") -> S3Storage:
    return S3Storage(service.address, "nni", access_key=access_key, secret_key="secret", folder="lab")


@pytest.mark.parametrize("size", [0, 7, 8 * 2**20], ids=["empty", "small", "a whole chunk"])
def test_a_file_is_an_object_and_comes_back(service: S3Service, size: int) -> None:
    storage, content = storage_of(service), os.urandom(size)
    assert storage.save("checkpoints/e1/a", ContentFile(content)) == "checkpoints/e1/a"
    assert service.objects == {"lab/checkpoints/e1/a": content}
    assert service.count("PUT", "a") == 1, "one request, whatever the size of a chunk"
    with storage.open("checkpoints/e1/a") as file:
        assert file.read() == content
    assert (storage.exists("checkpoints/e1/a"), storage.size("checkpoints/e1/a")) == (True, size)
    storage.delete("checkpoints/e1/a")
    storage.delete("checkpoints/e1/a")
    assert service.objects == {}


def test_what_is_missing_is_missing_as_in_a_folder(service: S3Service) -> None:
    storage = storage_of(service)
    assert not storage.exists("gone")
    for ask in (storage.open, storage.size):
        with pytest.raises(FileNotFoundError):
            ask("gone")


def test_a_file_of_the_same_name_is_replaced(service: S3Service) -> None:
    storage = storage_of(service)
    for content in (b"first", b"second"):
        assert storage.save("a", ContentFile(content)) == "a"
    assert service.objects == {"lab/a": b"second"}


def test_a_wrong_key_is_an_error_and_not_a_missing_file(service: S3Service) -> None:
    with pytest.raises(Exception, match="AccessDenied|not signed") as found:
        storage_of(service, "other").open("a")
    assert not isinstance(found.value, FileNotFoundError)


def test_an_endpoint_without_a_scheme_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="must begin with https"):
        S3Storage("s3.example.org", "nni")
