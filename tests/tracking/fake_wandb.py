"""A loopback stand-in for W&B's server: what the client and its Reports API ask of it, kept in memory.

It takes runs (config, streamed history and summary, files), artifacts with their manifests, and reports, and
answers the queries of `wandb.Api`. `fault` makes it fail.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ENTITY = "acme"
WHEN = "2026-01-01T00:00:00"
PAGE_END: dict[str, Any] = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
Fault = Callable[[str], "int | str | None"]
"""What to do with an operation ("UpsertBucket", "file_stream", "upload"): None answers it, a number is the
status to answer with, "hang" never answers, "close" cuts the connection."""


@dataclass
class StoredRun:
    """A run as the server holds it."""

    project: str
    id: str
    name: str = ""
    group: str = ""
    job_type: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    state: str = "running"
    files: dict[str, bytes] = field(default_factory=dict)
    began: int = 0

    def node(self) -> dict[str, Any]:
        return {
            "id": f"storage-{self.id}", "tags": [], "name": self.id, "displayName": self.name,
            "sweepName": None, "state": self.state,
            "config": json.dumps({key: {"value": value} for key, value in self.config.items()}),
            "group": self.group, "jobType": self.job_type, "commit": None, "readOnly": False,
            "createdAt": WHEN, "heartbeatAt": WHEN, "description": None, "notes": None, "systemMetrics": "{}",
            "summaryMetrics": json.dumps(self.summary), "historyLineCount": len(self.history),
            "user": {"name": ENTITY, "username": ENTITY}, "historyKeys": None, "projectId": 1,
        }  # fmt: skip


class FakeWandb(ThreadingHTTPServer):
    """The server, listening on a free port of the loopback from its making on."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.fault: Fault = lambda operation: None
        self.operations: list[str] = []
        self.unknown: list[str] = []
        """Queries it has no answer to; a test that uses it ends with none."""
        self.projects: set[str] = set()
        self.runs: dict[str, StoredRun] = {}
        self.views: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.uploads: dict[str, bytes] = {}
        self.closing = threading.Event()
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Refuse every connection from now on."""
        self.closing.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    def answer(self, query: str, v: dict[str, Any]) -> dict[str, Any]:
        """The data of a GraphQL query; empty, and kept in `unknown`, where it knows none."""
        answer = getattr(self, f"_{operation_of(query)}", None)
        if answer is None:
            self.unknown.append(query)
            return {}
        with self.lock:
            data: dict[str, Any] = answer(v)
        return data

    def artifact(self, name: str) -> dict[str, bytes]:
        """The files of a committed artifact, by their paths in it."""
        (found,) = (a for a in self.artifacts.values() if a["input"]["artifactCollectionName"] == name)
        assert found["state"] == "COMMITTED"
        manifest = json.loads(self.uploads[f"{found['id']}/wandb_manifest.json"])
        return {path: self.uploads[f"{found['id']}/{path}"] for path in manifest["contents"]}

    # What follows is named after the operations of the client.

    def _project(self, name: str) -> dict[str, Any]:
        return {
            "__typename": "Project", "id": f"p-{name}", "internalId": "1", "name": name,
            "entityName": ENTITY, "entity": {"id": "e1", "name": ENTITY}, "user": None, "createdAt": WHEN,
            "isBenchmark": False,
        }  # fmt: skip

    def _Viewer(self, v: dict[str, Any]) -> dict[str, Any]:
        return {
            "viewer": {
                "id": "u1", "entity": ENTITY, "username": ENTITY, "name": "A", "email": "a@b.c",
                "flags": "{}", "admin": False, "deletedAt": None, "teams": {"edges": []},
                "apiKeys": {"edges": []},
            }
        }  # fmt: skip

    _GetViewer = _Viewer
    _GetDefaultEntity = _Viewer

    def _GetProjects(self, v: dict[str, Any]) -> dict[str, Any]:
        edges = [{"node": self._project(name)} for name in sorted(self.projects)]
        return {"models": {"edges": edges, "pageInfo": PAGE_END}}

    def _ProjectInternalId(self, v: dict[str, Any]) -> dict[str, Any]:
        name = v["projectName"]
        return {"project": self._project(name) if name in self.projects else None}

    def _UpsertBucket(self, v: dict[str, Any]) -> dict[str, Any]:
        new = v["name"] not in self.runs
        run = self.runs.setdefault(v["name"], StoredRun(v["project"], v["name"]))
        self.projects.add(v["project"])
        run.name, run.group = v["displayName"] or run.name, v["groupName"] or run.group
        run.job_type = v["jobType"] or run.job_type
        if v["config"]:
            run.config |= {key: item["value"] for key, item in json.loads(v["config"]).items()}
        bucket = {
            "id": f"storage-{run.id}", "name": run.id, "displayName": run.name, "description": None,
            "config": None, "sweepName": None, "project": self._project(run.project),
            "historyLineCount": len(run.history),
        }  # fmt: skip
        return {"upsertBucket": {"inserted": new, "bucket": bucket}}

    def _RunResumeStatus(self, v: dict[str, Any]) -> dict[str, Any]:
        run = self.runs.get(v["name"])
        if run is None or run.project != v["project"]:
            return {
                "model": {
                    "id": "p1",
                    "name": v["project"],
                    "entity": {"id": "e1", "name": ENTITY},
                    "bucket": None,
                }
            }
        bucket = {
            "id": f"storage-{run.id}", "name": run.id, "displayName": run.name, "notes": None, "tags": [],
            "summaryMetrics": json.dumps(run.summary), "logLineCount": 0, "eventsLineCount": 0,
            "historyLineCount": len(run.history), "eventsTail": "[]",
            "wandbConfig": json.dumps({"t": run.config.get("_wandb", {}).get("t")}),
            "historyTail": json.dumps([json.dumps(line) for line in run.history[-1:]]),
            "config": json.dumps({key: {"value": value} for key, value in run.config.items()}),
        }  # fmt: skip
        return {
            "model": {
                "id": "p1",
                "name": v["project"],
                "entity": {"id": "e1", "name": ENTITY},
                "bucket": bucket,
            }
        }

    def _CreateRunFiles(self, v: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": f, "uploadUrl": f"{self.url}/run/{v['run']}/{f}"} for f in v["files"]]
        return {"createRunFiles": {"runID": "r1", "uploadHeaders": [], "files": files}}

    def _Runs(self, v: dict[str, Any]) -> dict[str, Any]:
        if v["project"] not in self.projects:
            return {"project": None}
        names = json.loads(v["filters"])["name"]["$in"]
        found = [r.node() for r in self.runs.values() if r.project == v["project"] and r.id in names]
        start = int(v["cursor"] or 0)
        page = found[start : start + v["perPage"]]
        edges = [{"node": node, "cursor": str(start + i + 1)} for i, node in enumerate(page)]
        more = start + len(page) < len(found)
        runs = {"edges": edges, "pageInfo": {"endCursor": str(start + len(page)), "hasNextPage": more}}
        return {"project": {"internalId": "1", "runCount": len(found), "readOnly": False, "runs": runs}}

    def _ProjectViews(self, v: dict[str, Any]) -> dict[str, Any]:
        views = [
            {**view, "user": None} for view in self.views.values() if view["projectName"] == v["project"]
        ]
        edges = [{"node": view, "cursor": str(i)} for i, view in enumerate(views)]
        return {"project": {"allViews": {"edges": edges, "pageInfo": PAGE_END}}}

    def _upsertView(self, v: dict[str, Any]) -> dict[str, Any]:
        new = v["id"] is None
        identifier = base64.b64encode(f"View:{len(self.views) + 1}".encode()).decode() if new else v["id"]
        times = {"createdAt": WHEN, "updatedAt": WHEN}
        self.views[identifier] = {**v, "id": identifier, "project": self._project(v["projectName"]), **times}
        return {"upsertView": {"view": self.views[identifier], "inserted": new}}

    def _SpecificReport(self, v: dict[str, Any]) -> dict[str, Any]:
        return {"view": self.views[v["reportId"]]}

    def _ArtifactType(self, v: dict[str, Any]) -> dict[str, Any]:
        return {"project": {"artifact": None}}

    def _ServerFeaturesQuery(self, v: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    def _FetchArtifactDigestAlgorithm(self, v: dict[str, Any]) -> dict[str, Any]:
        return {"project": None}

    def _CreateArtifact(self, v: dict[str, Any]) -> dict[str, Any]:
        asked = v["input"]
        number = f"a{len(self.artifacts) + 1}"
        made = {"id": number, "input": asked, "state": "PENDING"}
        self.artifacts[number] = made
        sequence = {"id": f"s-{asked['artifactCollectionName']}", "latestArtifact": None}
        return {
            "createArtifact": {"artifact": {"id": number, "state": "PENDING", "artifactSequence": sequence}}
        }

    def _CreateArtifactManifest(self, v: dict[str, Any]) -> dict[str, Any]:
        file = {
            "id": f"f-{v['artifactID']}",
            "name": v["name"],
            "displayName": v["name"],
            "uploadHeaders": [],
        }
        if v["includeUpload"]:
            file["uploadUrl"] = f"{self.url}/artifact/{v['artifactID']}/{v['name']}"
        return {"createArtifactManifest": {"artifactManifest": {"id": f"m-{v['artifactID']}", "file": file}}}

    def _UpdateArtifactManifest(self, v: dict[str, Any]) -> dict[str, Any]:
        number = v["artifactManifestID"].removeprefix("m-")
        url = f"{self.url}/artifact/{number}/wandb_manifest.json"
        file = {"id": f"f-{number}", "name": "wandb_manifest.json", "displayName": "wandb_manifest.json"}
        file |= {"uploadHeaders": [], "uploadUrl": url}
        return {"updateArtifactManifest": {"artifactManifest": {"id": f"m-{number}", "file": file}}}

    def _CreateArtifactFiles(self, v: dict[str, Any]) -> dict[str, Any]:
        edges = []
        for spec in v["input"]["artifactFiles"]:
            path = f"{spec['artifactID']}/{spec['name']}"
            node = {
                "id": f"f-{path}", "name": spec["name"], "displayName": spec["name"], "storagePath": path,
                "uploadUrl": f"{self.url}/artifact/{path}", "uploadHeaders": [], "uploadMultipartUrls": None,
                "artifact": {"id": spec["artifactID"]},
            }  # fmt: skip
            edges.append({"node": node})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def _CommitArtifact(self, v: dict[str, Any]) -> dict[str, Any]:
        made = self.artifacts[v["artifactID"]]
        made["state"] = "COMMITTED"
        return {"commitArtifact": {"artifact": {"id": made["id"], "digest": made["input"]["digest"]}}}

    def take(self, path: str, body: bytes) -> None:
        """A file, or a piece of a run's stream, whose lines go where their offset says."""
        kind, _, rest = path.lstrip("/").partition("/")
        with self.lock:
            if kind == "artifact":
                self.uploads[rest] = body
            elif kind == "run":
                name, _, file = rest.partition("/")
                self.runs[name].files[file] = body
            elif path.endswith("/file_stream"):
                self._stream(self.runs[path.split("/")[-2]], json.loads(body))

    def _stream(self, run: StoredRun, piece: dict[str, Any]) -> None:
        files = piece.get("files") or {}
        if history := files.get("wandb-history.jsonl"):
            run.history[history["offset"] :] = [json.loads(line) for line in history["content"]]
        if summary := files.get("wandb-summary.json"):
            run.summary = json.loads(summary["content"][-1])
        if piece.get("complete"):
            run.state = "finished" if piece["exitcode"] == 0 else "failed"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeWandb

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        ask = json.loads(body) if self.path == "/graphql" else {}
        operation = operation_of(ask["query"]) if ask else "upload"
        if self.path.endswith("/file_stream"):
            operation = "file_stream"
        self.server.operations.append(operation)
        fault = self.server.fault(operation)
        if fault == "hang":
            self.server.closing.wait()
        if isinstance(fault, str) or self.server.closing.is_set():
            self.close_connection = True
            return
        reply: dict[str, Any] = {}
        if fault is None and ask:
            reply = {"data": self.server.answer(ask["query"], ask.get("variables") or {})}
        elif fault is None:
            self.server.take(self.path, body)
        else:
            reply = {"errors": [{"message": "told to fail"}]}
        data = json.dumps(reply).encode()
        self.send_response(fault or 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = handle_any

    def log_message(self, *args: Any) -> None:
        pass


def operation_of(query: str) -> str:
    """The name of a query's operation."""
    found = re.search(r"(?:query|mutation)\s+(\w+)", query)
    return found[1] if found else "?"
