"""What the API double answers: rights, CRUD, lists and watches, in the words of the recordings."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.kubernetes.controllers import Controllers
from tests.fakes.kubernetes.node import Node
from tests.fakes.kubernetes.pod_admission import pod_causes
from tests.fakes.kubernetes.store import Object, Store, matches
from tests.fakes.kubernetes.validation import (
    as_stored,
    labels_and_annotations,
    metadata_causes,
    schema_causes,
)

#: plural -> (group, version, kind)
BUILT_IN = {"pods": ("", "v1", "Pod"), "secrets": ("", "v1", "Secret"), "configmaps": ("", "v1", "ConfigMap"),
            "persistentvolumeclaims": ("", "v1", "PersistentVolumeClaim"),
            "jobs": ("batch", "v1", "Job"), "resourcequotas": ("", "v1", "ResourceQuota"),
            "events": ("", "v1", "Event")}
_PATH = re.compile(r"(?:/api/(?P<core>v1)|/apis/(?P<group>[^/]+)/(?P<version>[^/]+))/namespaces/(?P<namespace>[^/]+)/"
                   r"(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?")


class Refused(Exception):
    """An answer that is a Status."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None,
                 metadata: Object | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.code, self.headers = code, headers or {}
        self.body: Object = {"kind": "Status", "apiVersion": "v1", "metadata": metadata or {}, "status": "Failure",
                             "message": message, **({"reason": reason} if reason else {}),
                             **({"details": details} if details else {}), "code": code}


class NotServed(Exception):
    """404 as plain text: no such API."""


class ApiAnswers:
    """One request, one answer. What it looks at is filled by the double."""

    store: Store
    node: Node
    controllers: Controllers
    kinds: dict[str, tuple[str, str, str]]
    schemas: dict[str, Object]
    namespaces: set[str]
    tokens: set[str]
    forbidden: set[tuple[str, str]]
    knows_no_rights: bool
    unknown_of_jobs: set[str]
    verbs: Counter[tuple[str, str]]
    faults: list[dict[str, Any]]
    cut_watches_after: float | None
    watches_are_too_old: bool
    _closing: threading.Event

    def answer(self, method: str, target: str, body: bytes, headers: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON body or text (an iterator of events for a watch), headers."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        try:
            self._authenticate(headers)
            if self.knows_no_rights:
                raise self._not_known_yet(method, parts.path, query)
            self._fault(method, parts.path, query)
            status, document = self._route(method, parts.path, query, body, headers)
            return status, document, {}
        except Refused as refusal:
            return refusal.code, refusal.body, refusal.headers
        except NotServed:
            return 404, "404 page not found\n", {}

    def _authenticate(self, headers: Any) -> None:
        scheme, _, token = str(headers.get("Authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or token not in self.tokens:
            raise Refused(401, "Unauthorized", "Unauthorized")

    def _fault(self, method: str, path: str, query: dict[str, str]) -> None:
        for fault in self.faults:
            if fault.get("times", 1) <= 0 or fault.get("path", "") not in path:
                continue
            if fault.get("verb") not in (None, verb_of(method, path, query)):
                continue
            fault["times"] = fault.get("times", 1) - 1
            after = fault.get("retry_after")
            reason = {429: "TooManyRequests", 403: "Forbidden"}.get(fault["status"], "InternalError")
            raise Refused(fault["status"], reason, fault.get("message", "the double was told to fail"),
                          headers={"Retry-After": str(after)} if after is not None else {})

    def _route(self, method: str, path: str, query: dict[str, str], body: bytes, headers: Any) -> tuple[int, Any]:
        found = _PATH.fullmatch(path)
        if found is None or found["namespace"] and found["plural"] is None or found["plural"] == "serviceaccounts":
            return self._elsewhere(method, path, body)
        group, version = found["group"] or "", found["version"] or found["core"]
        plural, name, namespace = found["plural"], found["name"] or "", found["namespace"]
        known = self.kinds.get(plural)
        if known is None or known[:2] != (group, version):
            raise NotServed
        verb = verb_of(method, path, query)
        self.verbs[verb, plural] += 1
        self._authorize(verb, group, plural, name, namespace, found["sub"] or "")
        if found["sub"] == "log" and plural == "pods":
            return self._log(namespace, name, query)
        if found["sub"]:
            raise NotServed
        if verb == "watch":
            return 200, self._watch(plural, namespace, query)
        if verb == "list":
            return 200, self._list(plural, namespace, query)
        if verb == "create":
            return 201, self._create(plural, namespace, self._body(body))
        if verb == "deletecollection":
            return 200, self._delete_collection(plural, namespace, query)
        if verb == "delete":
            return 200, self._delete(plural, namespace, name, query, body)
        item = self.store.get(plural, namespace, name)
        if item is None:
            raise self._not_found(plural, name)
        if verb == "get":
            return 200, item
        return 200, self._change(verb, plural, namespace, item, body, headers)

    def _elsewhere(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if path == "/version":
            return 200, {"major": "1", "minor": "21", "gitVersion": "v1.21.2+k3s1",
                         "gitCommit": "faffd6ecd237a32315a462a25c1cce1f24a9a506", "gitTreeState": "clean",
                         "buildDate": "2021-06-18T03:51:40Z", "goVersion": "go1.21.13", "compiler": "gc",
                         "platform": "linux/amd64"}
        if path == "/readyz":
            return 200, "ok"
        if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" and method == "POST":
            return 201, self._review(self._body(body))
        if found := re.fullmatch(r"/apis/scheduling.k8s.io/v1/priorityclasses/([^/]+)", path):
            if found[1] not in self.controllers.admission.priority_classes:
                raise Refused(404, "NotFound", f'priorityclasses.scheduling.k8s.io "{found[1]}" not found',
                              {"name": found[1], "group": "scheduling.k8s.io", "kind": "priorityclasses"})
            return 200, {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": found[1]}}
        if found := re.fullmatch(r"/api/v1/namespaces/[^/]+/serviceaccounts/([^/]+)", path):
            if found[1] not in self.controllers.admission.service_accounts:
                raise self._not_found("serviceaccounts", found[1])
            return 200, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": found[1]}}
        if path == "/api/v1/nodes":
            return 200, {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [
                {"metadata": {"name": self.node.name}, "spec": {}, "status": {"allocatable": {
                    "cpu": "8", "memory": "16Gi",
                    **({self.node.gpu_resource: str(self.node.gpus)} if self.node.gpus else {})}}}]}
        if found := re.fullmatch(r"/api/v1/namespaces/([^/]+)", path):
            if found[1] not in self.namespaces:
                raise self._not_found("namespaces", found[1])
            return 200, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": found[1]},
                         "status": {"phase": "Active"}}
        if found := re.fullmatch(r"/apis/([^/]+)/([^/]+)", path):
            resources = [plural for plural, (group, version, _) in self.kinds.items()
                         if (group, version) == (found[1], found[2])]
            if resources:
                return 200, self._api_resources(found[1], found[2], resources)
        if found := re.fullmatch(r"/apis/([^/]+)", path):
            versions = sorted({version for group, version, _ in self.kinds.values() if group == found[1]})
            if versions:
                listed = [{"groupVersion": f"{found[1]}/{version}", "version": version} for version in versions]
                return 200, {"kind": "APIGroup", "apiVersion": "v1", "name": found[1], "versions": listed,
                             "preferredVersion": listed[0]}
        raise NotServed

    def _api_resources(self, group: str, version: str, plurals: list[str]) -> Object:
        resources = []
        for plural in plurals:
            kind = self.kinds[plural][2]
            resources.append({"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": [
                "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]})
            if plural != "frameworks":
                resources.append({"name": f"{plural}/status", "singularName": "", "namespaced": True, "kind": kind,
                                  "verbs": ["get", "patch", "update"]})
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}",
                "resources": resources}

    def _authorize(self, verb: str, group: str, plural: str, name: str, namespace: str, sub: str) -> None:
        resource = f"{plural}/{sub}" if sub else plural
        if (verb, resource) not in self.forbidden:
            return
        full = f"{plural}.{group}" if group else plural
        named = f' "{name}"' if name else ""
        details = {**({"name": name} if name else {}), **({"group": group} if group else {}), "kind": plural}
        raise Refused(403, "Forbidden", f'{full}{named} is forbidden: User "system:serviceaccount:default:nni-reader" '
                      f'cannot {verb} resource "{resource}" in API group "{group}" in the namespace "{namespace}"',
                      details)

    @staticmethod
    def _not_known_yet(method: str, path: str, query: dict[str, str]) -> Refused:
        """While the caches of roles and bindings are empty nobody may do anything, not even what all users may."""
        found = _PATH.fullmatch(path)
        if found is None or found["plural"] is None:
            return Refused(403, "Forbidden", f'forbidden: User "system:serviceaccount:default:nni-reader" cannot '
                           f'{method.lower()} path "{path}"', {})
        group, plural = found["group"] or "", found["plural"]
        return Refused(403, "Forbidden", f'{plural}{"." if group else ""}{group} is forbidden: User '
                       f'"system:serviceaccount:default:nni-reader" cannot {verb_of(method, path, query)} resource '
                       f'"{plural}" in API group "{group}" in the namespace "{found["namespace"]}"', {"kind": plural})

    def _review(self, review: Object) -> Object:
        asked = review["spec"]["resourceAttributes"]
        resource = asked["resource"] + (f"/{asked['subresource']}" if asked.get("subresource") else "")
        return {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                "metadata": {"creationTimestamp": None}, "spec": {"resourceAttributes": asked},
                "status": {"allowed": (asked["verb"], resource) not in self.forbidden}}

    # --- one object ------------------------------------------------------------------------

    def _body(self, body: bytes) -> Object:
        try:
            document = json.loads(body)
        except ValueError as error:
            raise Refused(400, "BadRequest", f"couldn't parse the body: {error}") from error
        return document

    def _create(self, plural: str, namespace: str, item: Object) -> Object:
        group, version, kind = self.kinds[plural]
        metadata = item.get("metadata") or {}
        if metadata.get("namespace", namespace) != namespace:
            raise Refused(400, "BadRequest",
                          "the namespace of the provided object does not match the namespace sent on the request")
        if namespace not in self.namespaces:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found',
                          {"name": namespace, "kind": "namespaces"})
        if item.get("kind") != kind:
            self._invalid(plural, item, [("kind", "FieldValueInvalid",
                                          f'Invalid value: "{item.get("kind")}": must be {kind}')], item.get("kind"))
        self._validate(plural, item)
        schema = self.schemas.get(plural)
        if schema is not None and plural not in BUILT_IN:
            body = as_stored({key: value for key, value in item.items() if key != "metadata"}, schema)
            item = {"apiVersion": item["apiVersion"], "kind": kind, "metadata": item["metadata"], **body}
        if plural == "pods" and (why := self.controllers.admission.refusal(metadata["name"], namespace, item["spec"])):
            raise Refused(403, "Forbidden", why, {"name": metadata["name"], "kind": "pods"})
        if plural == "jobs":
            item = {**item, "spec": {key: value for key, value in item["spec"].items()
                                     if key not in self.unknown_of_jobs}}
        item = self.controllers.on_create(plural, item)
        made = self.store.create(plural, namespace, self._stored(plural, item))
        if made is None:
            raise Refused(409, "AlreadyExists", f'{self._full(plural)} "{metadata["name"]}" already exists',
                          self._details(plural, metadata["name"]))
        if plural == "pods":
            self.store.change("pods", namespace, metadata["name"],
                              lambda pod: pod.__setitem__("status", {"phase": "Pending"}))
            self.node.take(self.store.get("pods", namespace, metadata["name"]) or made)
        return made

    def _validate(self, plural: str, item: Object) -> None:
        causes = metadata_causes(item)
        schema = self.schemas.get(plural)
        if schema is not None:
            causes += schema_causes({key: value for key, value in item.items() if key != "status"}, schema)
        spec = item.get("spec") or {}
        if plural == "pods":
            causes += pod_causes(spec)
        elif plural == "jobs" and not causes:
            causes += labels_and_annotations(spec["template"].get("metadata") or {}, "spec.template")
            causes += pod_causes(spec["template"]["spec"], "spec.template.spec")
        if causes:
            self._invalid(plural, item, causes)

    def _invalid(self, plural: str, item: Object, causes: list[tuple[str, str, str]], kind: str | None = None) -> None:
        group = self.kinds[plural][0]
        kind = kind or self.kinds[plural][2]
        name = (item.get("metadata") or {}).get("name") or ""
        texts = [f"{field}: {message}" for field, _, message in causes]
        said = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        full = f"{kind}.{group}" if group else kind
        raise Refused(422, "Invalid", f'{full} "{name}" is invalid: {said}', {
            **({"name": name} if name else {}), **({"group": group} if group else {}), "kind": kind,
            "causes": [{"reason": reason, "message": message, "field": field} for field, reason, message in causes]})

    @staticmethod
    def _stored(plural: str, item: Object) -> Object:
        """What is kept: texts of a Secret become data."""
        texts = item.get("stringData")
        if plural == "secrets" and texts:
            data = {**(item.get("data") or {}),
                    **{key: base64.b64encode(value.encode()).decode() for key, value in texts.items()}}
            item = {key: value for key, value in item.items() if key != "stringData"} | {"data": data}
        return item

    def _change(self, verb: str, plural: str, namespace: str, item: Object, body: bytes, headers: Any) -> Object:
        name = item["metadata"]["name"]
        document = self._body(body)
        if verb == "patch":
            kind = str(headers.get("Content-Type") or "").partition(";")[0]
            if kind != "application/merge-patch+json":
                raise Refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format - "
                              "accepted media types include: application/json-patch+json, "
                              "application/merge-patch+json, application/apply-patch+yaml")
            changed = _merge(item, document)
        else:
            changed = {**document, "metadata": {
                **{key: item["metadata"][key] for key in ("uid", "creationTimestamp", "generation")
                   if key in item["metadata"]}, "namespace": namespace, **document["metadata"]}}
            if "status" in item:
                changed["status"] = item["status"]
        version = (document.get("metadata") or {}).get("resourceVersion")
        if version is not None and version != item["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict", f'Operation cannot be fulfilled on {self._full(plural)} "{name}": the '
                          "object has been modified; please apply your changes to the latest version and try again",
                          self._details(plural, name))
        changed["metadata"] = {**changed["metadata"], "resourceVersion": item["metadata"]["resourceVersion"]}
        changed = self._stored(plural, changed)
        self._validate(plural, {key: value for key, value in changed.items() if key != "status"})

        def replace(stored: Object) -> None:
            stored.clear()
            stored.update(changed)

        result = self.store.change(plural, namespace, name, replace)
        if result is None:
            raise self._not_found(plural, name)
        return result

    def _delete(self, plural: str, namespace: str, name: str, query: dict[str, str], body: bytes) -> Object:
        item = self.store.get(plural, namespace, name)
        if item is None:
            raise self._not_found(plural, name)
        options = self._body(body) if body else {}
        policy = query.get("propagationPolicy") or options.get("propagationPolicy") or "Background"
        remains = self.controllers.delete(plural, namespace, name, policy)
        if remains is not None:
            return remains
        details = {**self._details(plural, name), "uid": item["metadata"]["uid"]}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _delete_collection(self, plural: str, namespace: str, query: dict[str, str]) -> Object:
        selector = self._selector(query)
        found = [item for item in self.store.all(plural, namespace) if matches(item, selector)]
        for item in found:
            self.controllers.delete(plural, namespace, item["metadata"]["name"],
                                    query.get("propagationPolicy", "Background"))
        return self._document(plural, found, {"continue": "", "resourceVersion": str(self.store.version)})

    # --- many ------------------------------------------------------------------------------

    @staticmethod
    def _selector(query: dict[str, str]) -> str:
        selector = query.get("labelSelector", "")
        for part in filter(None, selector.split(",")):
            if part.count("==") > 1:
                raise Refused(400, "BadRequest", "found '==', expected: ',' or 'end of string'")
        return selector

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> Object:
        selector = self._selector(query)
        fields = dict(part.split("=") for part in filter(None, query.get("fieldSelector", "").split(",")))
        found = [item for item in self.store.all(plural, namespace)
                 if matches(item, selector) and all(str(item.get(name)) == value for name, value in fields.items())]
        metadata: Object = {"continue": "", "resourceVersion": str(self.store.version)}
        if query.get("resourceVersionMatch") == "Exact" and int(query["resourceVersion"]) < self.store.compacted:
            raise Refused(410, "Expired", "The resourceVersion for the provided list is too old.")
        start = 0
        if query.get("continue"):
            try:
                token = json.loads(base64.b64decode(query["continue"], validate=True))
            except ValueError as error:
                raise Refused(400, "BadRequest", "invalid continue token: continue key is not valid: illegal base64 "
                              "data at input byte 8") from error
            if token["rv"] < self.store.compacted:
                fresh = base64.b64encode(json.dumps({**token, "rv": self.store.version}).encode()).decode()
                raise Refused(410, "Expired", "The provided continue parameter is too old to display a consistent list "
                              "result. You can start a new list without the continue parameter, or use the continue "
                              "token in this response to retrieve the remainder of the results. Continuing with the "
                              "provided token results in an inconsistent list - objects that were created, "
                              "modified, or deleted between the time the first chunk was returned and now may show up "
                              "in the list.",
                              metadata={"continue": fresh})
            start = token["start"]
        limit = int(query.get("limit") or 0)
        page = found[start:start + limit] if limit else found[start:]
        if start + len(page) < len(found):
            token = {"v": "meta.k8s.io/v1", "rv": self.store.version, "start": start + len(page)}
            metadata["continue"] = base64.b64encode(json.dumps(token).encode()).decode()
            metadata["remainingItemCount"] = len(found) - start - len(page)
        return self._document(plural, page, metadata)

    def _document(self, plural: str, items: list[Object], metadata: Object) -> Object:
        group, version, kind = self.kinds[plural]
        return {"apiVersion": f"{group}/{version}" if group else version, "items": items, "kind": f"{kind}List",
                "metadata": metadata}

    def _watch(self, plural: str, namespace: str, query: dict[str, str]) -> Iterator[Object]:
        text = query.get("resourceVersion", "")
        if text and not text.isdigit():
            raise Refused(500, "", f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
                          "invalid syntax")
        version = int(text) if text else self.store.version
        if self.watches_are_too_old or version < self.store.compacted:
            body = Refused(410, "Expired", f"too old resource version: {version} ({self.store.compacted})").body
            return iter([{"type": "ERROR", "object": body}])
        return self._events(plural, namespace, query, version)

    def _events(self, plural: str, namespace: str, query: dict[str, str], version: int) -> Iterator[Object]:
        selector = self._selector(query)
        began = time.monotonic()
        ends = began + float(query.get("timeoutSeconds") or 300)
        cut = self.cut_watches_after
        group, api_version, kind = self.kinds[plural]
        while time.monotonic() < ends and not self._closing.is_set():
            with self.store.changed:
                events = self.store.events_after(version, plural, namespace)
                if not events:
                    # nothing until then is left to tell, also over a compaction
                    version = max(version, self.store.version)
                    self.store.changed.wait(0.2)
            for number, event_kind, item in events:
                version = number
                if matches(item, selector):
                    yield {"type": event_kind, "object": item}
            if cut is not None and time.monotonic() - began >= cut:
                raise ConnectionAbortedError
        if query.get("allowWatchBookmarks") == "true":
            yield {"type": "BOOKMARK", "object": {
                "kind": kind, "apiVersion": f"{group}/{api_version}" if group else api_version,
                "metadata": {"resourceVersion": str(max(version, 1)), "creationTimestamp": None}}}

    def _log(self, namespace: str, name: str, query: dict[str, str]) -> tuple[int, Any]:
        pod = self.store.get("pods", namespace, name)
        if pod is None:
            raise self._not_found("pods", name)
        data = self.node.log_of(pod)
        if data is None:
            container = pod["spec"]["containers"][0]["name"]
            raise Refused(400, "BadRequest", f'container "{container}" in pod "{name}" is waiting to start: '
                          "ContainerCreating")
        if query.get("tailLines"):
            data = b"".join(data.splitlines(keepends=True)[-int(query["tailLines"]):])
        return 200, data.decode(errors="replace")

    # --- words -----------------------------------------------------------------------------

    def _full(self, plural: str) -> str:
        group = self.kinds.get(plural, ("", "", ""))[0]
        return f"{plural}.{group}" if group else plural

    def _details(self, plural: str, name: str) -> Object:
        group = self.kinds.get(plural, ("", "", ""))[0]
        return {"name": name, **({"group": group} if group else {}), "kind": plural}

    def _not_found(self, plural: str, name: str) -> Refused:
        return Refused(404, "NotFound", f'{self._full(plural)} "{name}" not found', self._details(plural, name))


def verb_of(method: str, path: str, query: dict[str, str]) -> str:
    """Kubernetes' word for a request."""
    found = _PATH.fullmatch(path)
    named = found is not None and bool(found["name"])
    if method == "GET":
        return "get" if named else "watch" if query.get("watch") in ("true", "1") else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}[method]


def _merge(item: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged
