"""Calls ECS and Secrets Manager for Fargate tasks; every call blocks and raises `CloudError`."""

from datetime import datetime
from typing import Final

import msgspec

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.remote.cloud import Cloud, CloudError
from timeloom.sandbox.remote.launch_payload import PAYLOAD_VARIABLE

SECRET_PREFIX: Final = "timeloom/runtime/exec-payloads/"
"""Name prefix of all launch secrets."""

STARTED_BY: Final = "timeloom"
_GONE: Final = "ResourceNotFoundException"


class NotLaunchedError(Exception):
    """ECS accepted the request but started no task; the message is the reason."""


class _TaskFailure(msgspec.Struct, frozen=True):
    reason: str = ""
    detail: str = ""


class TaskContainer(msgspec.Struct, frozen=True, rename="camel"):
    """A container of a task."""

    name: str = ""
    exit_code: int | None = None
    reason: str = ""


class TaskState(msgspec.Struct, frozen=True, rename="camel"):
    """State of a task as ECS reports it."""

    task_arn: str
    last_status: str = ""
    stop_code: str = ""
    stopped_reason: str = ""
    containers: tuple[TaskContainer, ...] = ()

    @property
    def is_stopped(self) -> bool:
        return self.last_status == "STOPPED"

    @property
    def is_running(self) -> bool:
        return self.last_status in ("RUNNING", "DEACTIVATING", "STOPPING", "DEPROVISIONING")

    def stop_reason(self) -> str:
        """Return why the task stopped, as ECS reports it."""
        reasons = [self.stopped_reason, *(f"{each.name}: {each.reason}" for each in self.containers if each.reason)]
        codes = [f"{each.name} exited with {each.exit_code}" for each in self.containers if each.exit_code]
        return "; ".join(filter(None, [*reasons, *codes])) or "ECS gives no reason"


class _TasksResponse(msgspec.Struct, frozen=True):
    tasks: tuple[TaskState, ...] = ()
    failures: tuple[_TaskFailure, ...] = ()


class _Cluster(msgspec.Struct, frozen=True):
    status: str = ""


class _ClustersResponse(msgspec.Struct, frozen=True):
    clusters: tuple[_Cluster, ...] = ()


class _TaskDefinition(msgspec.Struct, frozen=True, rename="camel"):
    container_definitions: tuple[TaskContainer, ...] = ()


class _TaskDefinitionResponse(msgspec.Struct, frozen=True, rename="camel"):
    task_definition: _TaskDefinition


class SecretInfo(msgspec.Struct, frozen=True, rename="pascal"):
    """A secret without its value."""

    name: str
    created_date: datetime


class _SecretsPage(msgspec.Struct, frozen=True, rename="pascal"):
    secret_list: tuple[SecretInfo, ...] = ()
    next_token: str = ""


class EcsTasks:
    """The ECS tasks and launch secrets of a profile."""

    def __init__(self, cloud: Cloud, profile: FargateProfile) -> None:
        self._cloud, self._profile = cloud, profile

    def check(self) -> None:
        """Raise `SandboxUnavailableError` if the cluster or the container does not exist."""
        profile = self._profile
        found = self._cloud.call("ecs", "describe_clusters", {"clusters": [profile.cluster]})
        if not any(each.status == "ACTIVE" for each in msgspec.convert(found, _ClustersResponse).clusters):
            raise SandboxUnavailableError("execution.runtime.cluster names no active ECS cluster; set another one")
        try:
            defined = self._cloud.call("ecs", "describe_task_definition", {"taskDefinition": profile.task_definition})
        except CloudError as error:
            raise SandboxUnavailableError(
                f"execution.runtime.task_definition cannot be used, register it first: {error}"
            ) from None
        containers = msgspec.convert(defined, _TaskDefinitionResponse).task_definition.container_definitions
        if profile.container not in {each.name for each in containers}:
            raise SandboxUnavailableError(
                f"the task definition has no container {profile.container!a}; docs/how-to/run-programs-on-fargate.md"
            )

    def start(self, secret: str) -> str:
        """Start a task that reads that secret and return its ARN; raise `NotLaunchedError`."""
        profile = self._profile
        public = "ENABLED" if profile.assign_public_ip else "DISABLED"
        network = {
            "subnets": list(profile.subnets),
            "securityGroups": list(profile.security_groups),
            "assignPublicIp": public,
        }
        override = {"name": profile.container, "environment": [{"name": PAYLOAD_VARIABLE, "value": secret}]}
        arguments: dict[str, object] = {
            "cluster": profile.cluster,
            "taskDefinition": profile.task_definition,
            "launchType": "FARGATE",
            "count": 1,
            "startedBy": STARTED_BY,
            # Makes a retry after a lost response start only one task.
            "clientToken": secret.rpartition("/")[2][-64:],
            "networkConfiguration": {"awsvpcConfiguration": network},
            "overrides": {"containerOverrides": [override]},
        }
        started = msgspec.convert(self._cloud.call("ecs", "run_task", arguments), _TasksResponse)
        if not started.tasks:
            reasons = [f"{each.reason} {each.detail}".strip() for each in started.failures]
            raise NotLaunchedError(f"ECS did not start the task: {'; '.join(reasons) or 'no reason is given'}")
        return started.tasks[0].task_arn

    def describe(self, arn: str) -> TaskState | None:
        """Return the state of the task; None if ECS does not know it, or not yet."""
        found = self._cloud.call("ecs", "describe_tasks", {"cluster": self._profile.cluster, "tasks": [arn]})
        return next(iter(msgspec.convert(found, _TasksResponse).tasks), None)

    def stop(self, arn: str, reason: str) -> None:
        """Request that the task stops."""
        self._cloud.call("ecs", "stop_task", {"cluster": self._profile.cluster, "task": arn, "reason": reason[:255]})

    def create_secret(self, name: str, data: bytes) -> None:
        """Create a secret."""
        self._cloud.call("secretsmanager", "create_secret", {"Name": name, "SecretBinary": data})

    def delete_secret(self, name: str) -> None:
        """Delete the secret at once; a missing secret is no error."""
        arguments: dict[str, object] = {"SecretId": name, "ForceDeleteWithoutRecovery": True}
        try:
            self._cloud.call("secretsmanager", "delete_secret", arguments)
        except CloudError as error:
            if error.code != _GONE:
                raise

    def list_secrets(self) -> list[SecretInfo]:
        """Return all launch secrets."""
        found: list[SecretInfo] = []
        arguments: dict[str, object] = {"Filters": [{"Key": "name", "Values": [SECRET_PREFIX]}], "MaxResults": 100}
        while True:
            page = msgspec.convert(self._cloud.call("secretsmanager", "list_secrets", arguments), _SecretsPage)
            found.extend(page.secret_list)
            if not page.next_token:
                return found
            arguments["NextToken"] = page.next_token
