"""Opens the sandbox that the settings select."""

from pathlib import Path
from typing import assert_never

from msgspec.structs import replace

from timeloom.config.errors import ConfigError
from timeloom.config.sections.execution import ExecutionSettings, RuntimeSettings
from timeloom.ports.sandbox import ExecutionLimits, Sandbox


def open_sandbox(settings: ExecutionSettings) -> Sandbox:
    """Return the sandbox of these settings; it starts nothing before the first program."""
    runtime = apply_profile(settings.runtime)
    match runtime.mode:
        case "local":
            return _open_local(runtime)
        case "docker":
            return _open_docker(runtime, settings.limits.to_limits())
        case "fargate":
            return _open_fargate(runtime)
        case _:
            assert_never(runtime.mode)


def apply_profile(runtime: RuntimeSettings) -> RuntimeSettings:
    """Return the settings with the selected profile applied; raise if the profile is unknown."""
    try:
        return runtime.with_profile()
    except KeyError:
        names = ", ".join(sorted(runtime.profiles)) or "none"
        detail = f"execution.runtime.profile is {runtime.profile[:60]!r}; expected one of the profiles: {names}"
        raise ConfigError("setting_invalid", detail) from None


def _open_local(runtime: RuntimeSettings) -> Sandbox:
    from timeloom.sandbox.local import LocalSandbox, LocalSettings  # noqa: PLC0415 - each of them takes 50 ms to load

    settings = LocalSettings(warm=runtime.warm)
    return LocalSandbox(replace(settings, python=Path(runtime.python)) if runtime.python else settings)


def _open_docker(runtime: RuntimeSettings, limits: ExecutionLimits) -> Sandbox:
    from timeloom.sandbox.docker import DockerProfile, DockerSandbox  # noqa: PLC0415 - as above

    profile = DockerProfile(
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
    return DockerSandbox(profile)


def _open_fargate(runtime: RuntimeSettings) -> Sandbox:
    from timeloom.sandbox.fargate import FargateProfile, FargateSandbox  # noqa: PLC0415 - as above

    profile = FargateProfile(
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
    return FargateSandbox(profile)
