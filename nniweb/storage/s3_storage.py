"""Files as objects of an S3-compatible service (AWS, MinIO, Ceph). Needs the package ``minio``: requirements/s3.txt.

An object has its name when it is whole, and one of the same name is replaced.
"""

from __future__ import annotations

import shutil
import tempfile
from typing import Any, BinaryIO, cast

import urllib3
from django.core.exceptions import ImproperlyConfigured
from django.core.files.base import File
from django.core.files.storage import Storage
from minio import Minio
from minio.error import S3Error

#: Seconds for a connection, and for each answer.
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 15.0
#: A file up to this size is one request, and in memory while it is sent; a larger one is sent in parts of this size.
_ONE_REQUEST = 64 * 1024 ** 2
#: A file up to this size is in memory while it is read; a larger one goes into a temporary file.
_IN_MEMORY = 8 * 1024 ** 2
_MISSING = ("NoSuchKey", "NoSuchObject")


class S3Storage(Storage):
    """Raises FileNotFoundError where an object is missing, else the client's own exceptions. Any thread."""

    def __init__(self, endpoint: str, bucket: str, access_key: str | None = None, secret_key: str | None = None,
                 region: str = "us-east-1", folder: str = "") -> None:
        """``endpoint``: ``https://host:port``. ``folder``: what the names of all objects begin with.

        Raises ImproperlyConfigured.
        """
        scheme, _, host = endpoint.partition("://")
        if scheme not in ("http", "https") or not host:
            raise ImproperlyConfigured("The endpoint of S3 must begin with https:// or http://.")
        self._bucket, self._folder = bucket, folder.strip("/")
        self._client = Minio(
            host.rstrip("/"), access_key=access_key, secret_key=secret_key, region=region, secure=scheme == "https",
            http_client=urllib3.PoolManager(
                maxsize=8, timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS),
                retries=urllib3.Retry(total=1, backoff_factor=0.1)))

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        """The name itself: an object that has it is replaced at once, and never half."""
        return name

    def exists(self, name: str) -> bool:
        try:
            self.size(name)
        except FileNotFoundError:
            return False
        return True

    def size(self, name: str) -> int:
        try:
            return int(self._client.stat_object(self._bucket, self._key(name)).size or 0)
        except S3Error as error:
            raise _error(error, name) from error

    def delete(self, name: str) -> None:
        self._client.remove_object(self._bucket, self._key(name))

    def _open(self, name: str, mode: str = "rb") -> File[Any]:
        try:
            answer = self._client.get_object(self._bucket, self._key(name))
        except S3Error as error:
            raise _error(error, name) from error
        copy = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # whoever opened the file closes it
        try:
            shutil.copyfileobj(answer, copy, 256 * 1024)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        finally:
            answer.close()
            answer.release_conn()
        return File(copy, name)

    def _save(self, name: str, content: File[Any]) -> str:
        content.seek(0)
        self._client.put_object(self._bucket, self._key(name), cast(BinaryIO, content), content.size,
                                part_size=_ONE_REQUEST, num_parallel_uploads=1)
        return name

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}" if self._folder else name


def _error(error: S3Error, name: str) -> Exception:
    return FileNotFoundError(name) if error.code in _MISSING else error
