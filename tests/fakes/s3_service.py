"""An S3-compatible service with one bucket: puts, gets, heads and removes objects of requests that are signed."""

from __future__ import annotations

from tests.fakes.http_double import Answer, HttpDouble, Request

_MISSING = ('<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>no such key</Message>'
            "<Resource>{}</Resource></Error>")


class S3Service(HttpDouble):
    """``objects``: their content by key."""

    def __init__(self, bucket: str, access_key: str) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self._bucket, self._access_key = bucket, access_key

    def answer(self, request: Request) -> Answer:
        if f"Credential={self._access_key}/" not in request.headers.get("Authorization", ""):
            return Answer(403, "<Error><Code>AccessDenied</Code><Message>not signed</Message></Error>",
                          "application/xml")
        bucket, _, key = request.path.strip("/").partition("/")
        assert bucket == self._bucket
        if request.method == "PUT":
            self.objects[key] = request.body
            return Answer(200, b"", headers={"ETag": '"1"'})
        if request.method == "DELETE":
            self.objects.pop(key, None)
            return Answer(204)
        content = self.objects.get(key)
        if content is None:
            return Answer(404, b"" if request.method == "HEAD" else _MISSING.format(key), "application/xml")
        return Answer(200, content, "application/octet-stream", {
            "ETag": '"1"', "Last-Modified": "Tue, 24 Nov 2026 12:00:00 GMT"})
