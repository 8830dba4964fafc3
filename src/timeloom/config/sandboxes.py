"""Which sandbox the settings name."""

from pathlib import Path
from typing import assert_never

from msgspec.structs import replace

from timeloom.config.errors import ConfigError
from timeloom.config.execution import ExecutionSettings, RuntimeSettings
from timeloom.ports.sandbox import Limits, Sandbox
from timeloom.sandbox.docker.profile import DockerProfile
from timeloom.sandbox.docker.sandbox import DockerSandbox
from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.fargate.sandbox import FargateSandbox
from timeloom.sandbox.local.sandbox import LocalSandbox
from timeloom.sandbox.local.settings import LocalSettings


def open_sandbox(settings: ExecutionSettings) -> Sandbox:
    """The sandbox of these settings; it starts nothing before the first program."""
    runtime = chosen(settings.runtime)
    match runtime.mode:
        case "local":
            return LocalSandbox(_local(runtime))
        case "docker":
            return DockerSandbox(_docker(runtime, settings.limits.limits()))
        case "fargate":
            return FargateSandbox(_fargate(runtime))
        case _:
            assert_never(runtime.mode)


def chosen(runtime: RuntimeSettings) -> RuntimeSettings:
    """The settings with what the chosen profile says."""
    try:
        return runtime.chosen()
    except KeyError:
        names = ", ".join(sorted(runtime.profiles)) or "none"
        said = f"execution.runtime.profile is {runtime.profile[:60]!r}; expected one of the profiles: {names}"
        raise ConfigError("setting_invalid", said) from None


def _local(runtime: RuntimeSettings) -> LocalSettings:
    settings = LocalSettings(warm=runtime.warm)
    return replace(settings, python=Path(runtime.python)) if runtime.python else settings


def _docker(runtime: RuntimeSettings, limits: Limits) -> DockerProfile:
    return DockerProfile(
        socket=runtime.engine,
        image=runtime.image,
        container_strategy=runtime.container_strategy,
        network_mode=runtime.network_mode,
        cpus=runtime.cpus or None,
        memory=runtime.memory or None,
        extra_args=runtime.extra_args,
        warm=runtime.warm,
        warm_limits=limits,
    )


def _fargate(runtime: RuntimeSettings) -> FargateProfile:
    return FargateProfile(
        cluster=runtime.cluster,
        task_definition=runtime.task_definition,
        container=runtime.container,
        bucket=runtime.bucket,
        region=runtime.region,
        endpoint_url=runtime.endpoint_url,
        subnets=runtime.subnets,
        security_groups=runtime.security_groups,
        descriptor_payload_scope=runtime.descriptor_payload_scope,
    )
