"""A local AWS: S3 and Secrets Manager by moto, and an ECS whose tasks really run."""

import importlib
import json
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from werkzeug.serving import make_server

from tests.fargate.fake_task import FakeContainer

ECS = "AmazonEC2ContainerServiceV20141113."
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "eu-west-1"}
Body = dict[str, Any]


@dataclass
class FakeTask:
    """A task as ECS describes it."""

    arn: str
    overrides: Body
    status: str = "PROVISIONING"
    reason: str = ""
    exit_code: int | None = None
    container: FakeContainer | None = None
    stopping: bool = False

    def describe(self) -> Body:
        container: Body = {"name": "exec", "lastStatus": self.status}
        if self.exit_code is not None:
            container["exitCode"] = self.exit_code
        told: Body = {"taskArn": self.arn, "lastStatus": self.status, "containers": [container]}
        return {**told, "stoppedReason": self.reason} if self.reason else told


@dataclass
class FakeEcs:
    """The part of ECS that a sandbox uses; `refuses`, `never_runs` and `dies` inject failures."""

    folder: Path
    endpoint_url: str = ""
    tasks: list[FakeTask] = field(default_factory=list[FakeTask])
    refuses: str = ""
    never_runs: bool = False
    stop_reason: str = ""
    landlock: bool = True
    requested: threading.Event = field(default_factory=threading.Event)
    """Set when a task was requested."""

    hidden_polls: int = 0
    """Number of requests for which a new task is still unknown."""

    def answer(self, operation: str, body: Body) -> Body:
        ways: dict[str, Callable[[Body], Body]] = {
            "DescribeClusters": self._clusters,
            "DescribeTaskDefinition": self._definition,
            "RunTask": self._run,
            "DescribeTasks": self._describe,
            "StopTask": self._stop,
        }
        return ways[operation](body)

    def _clusters(self, body: Body) -> Body:
        return {"clusters": [{"clusterName": "exec", "status": "ACTIVE"}] if body["clusters"] == ["exec"] else []}

    def _definition(self, body: Body) -> Body:
        return {"taskDefinition": {"containerDefinitions": [{"name": "exec"}]}}

    def _run(self, body: Body) -> Body:
        if self.refuses:
            return {"tasks": [], "failures": [{"reason": self.refuses}]}
        task = FakeTask(f"arn:aws:ecs:eu-west-1:1:task/exec/{len(self.tasks)}", body["overrides"])
        self.tasks.append(task)
        self.requested.set()
        if not self.never_runs:
            self.launch(task)
        return {"tasks": [task.describe()], "failures": []}

    def launch(self, task: FakeTask) -> None:
        """Start the task."""
        threading.Thread(target=self._run_task, args=(task,), daemon=True).start()

    def _run_task(self, task: FakeTask) -> None:
        if self.stop_reason:
            task.reason, task.status = self.stop_reason, "STOPPED"
            return
        folder = self.folder / task.arn.rpartition("/")[2]
        folder.mkdir()
        [override] = task.overrides["containerOverrides"]
        given = {each["name"]: each["value"] for each in override["environment"]}
        env = {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint_url, **given}
        task.container = FakeContainer.start(env, folder, landlock=self.landlock)
        task.status = "RUNNING"
        task.exit_code = task.container.wait()
        task.reason = task.reason or "Essential container in task exited"
        shutil.rmtree(folder)
        task.status = "STOPPED"

    def _describe(self, body: Body) -> Body:
        if self.hidden_polls:
            self.hidden_polls -= 1
            return {"tasks": [], "failures": [{"reason": "MISSING"}]}
        return {"tasks": [task.describe() for task in self.tasks if task.arn in body["tasks"]], "failures": []}

    def _stop(self, body: Body) -> Body:
        [task] = [task for task in self.tasks if task.arn == body["task"]]
        task.reason = body["reason"]
        if task.container is None:
            task.status = "STOPPED"
        elif not task.stopping:
            task.stopping = True
            threading.Thread(target=task.container.stop, args=(5.0,), daemon=True).start()
        return {"task": task.describe()}


class FakeAws:
    """All services on one port while the context is entered."""

    def __init__(self, folder: Path) -> None:
        moto = cast(Any, importlib.import_module("moto.server"))
        self._moto = moto.DomainDispatcherApplication(moto.create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.folder = folder
        self.ecs = FakeEcs(folder, self.url)

    def __enter__(self) -> "FakeAws":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reset(self, folder: Path) -> None:
        """Replace the ECS by a new one without tasks."""
        folder.mkdir(exist_ok=True)
        self.ecs = FakeEcs(folder, self.url)

    def _serve(self, environ: Body, start_response: Callable[..., Any]) -> Iterable[bytes]:
        target: str = environ.get("HTTP_X_AMZ_TARGET", "")
        if not target.startswith(ECS):
            return self._moto(environ, start_response)
        body = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        answer = json.dumps(self.ecs.answer(target.removeprefix(ECS), body)).encode()
        start_response("200 OK", [("Content-Type", "application/x-amz-json-1.1")])
        return [answer]
