"""Settings of code execution: the sandbox of programs and their limits."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from timeloom.config.field_help import SettingHelp
from timeloom.config.value_types import Seconds, Url, Words
from timeloom.ports.sandbox import MIB, ExecutionLimits

Mode = Literal["local", "docker", "fargate"]
Strategy = Literal["split", "combined"]
PayloadScope = Literal["full", "active_bundle"]

Whole = Annotated[int, Meta(ge=1, le=10_000_000)]
MemoryMib = Annotated[int, Meta(ge=16, le=4_194_304)]
"""At least what Python needs to start, at most 4 TiB; kernels refuse more."""
Processes = Annotated[int, Meta(ge=1, le=1_000_000)]
"""A kernel has at most 4,194,304 process ids."""
OpenFiles = Annotated[int, Meta(ge=16, le=1_000_000)]
"""At least what Python needs to start; kernels allow about a million."""
Count = Annotated[int, Meta(ge=0, le=1000)]

_LIMITS: Final = ExecutionLimits()


class ExecutionProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named sandbox configuration; keys that it omits are taken from `execution.runtime`."""

    mode: Mode | None = None
    image: str | None = None
    container_strategy: Strategy | None = None
    network_mode: str | None = None
    cpus: str | None = None
    memory: str | None = None
    extra_args: tuple[str, ...] | None = None
    cluster: str | None = None
    task_definition: str | None = None
    container: str | None = None
    bucket: str | None = None
    region: str | None = None
    subnets: tuple[str, ...] | None = None
    security_groups: tuple[str, ...] | None = None
    descriptor_payload_scope: PayloadScope | None = None


Profiles = Annotated[
    Mapping[str, ExecutionProfile],
    Meta(description="a table of `mode`, `image`, `cpus` and the other keys of `execution.runtime` for each profile"),
]


class RuntimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox of programs."""

    mode: Annotated[
        Mode,
        SettingHelp(
            "Where programs run: isolated on this machine, in containers, or as tasks of AWS Fargate.",
            option="--sandbox",
        ),
    ] = "local"
    enabled: Annotated[bool, SettingHelp("Whether agents may run programs at all.")] = True
    profile: Annotated[
        str, SettingHelp("Name of the profile in `execution.runtime.profiles` to use; empty uses none.")
    ] = ""
    profiles: Annotated[Profiles, SettingHelp("Named sandbox configurations.")] = msgspec.field(
        default_factory=dict[str, ExecutionProfile]
    )
    python: Annotated[
        str,
        SettingHelp(
            "Python interpreter for programs in `local`, with their libraries; empty uses timeloom's interpreter."
        ),
    ] = ""
    warm: Annotated[
        Count, SettingHelp("Number of isolated interpreters kept ready after the first program; 0 keeps none.")
    ] = 1
    image: Annotated[str, SettingHelp("Container image for programs in `docker`.")] = "py-code-exec:latest"
    container_strategy: Annotated[
        Strategy, SettingHelp("Whether programs in `docker` get a separate container or share one with the supervisor.")
    ] = "split"
    network_mode: Annotated[str, SettingHelp("Network of the supervisor in `combined`; programs have no network.")] = (
        "none"
    )
    cpus: Annotated[str, SettingHelp("Number of processors of a container, such as `1.5`; empty means no limit.")] = ""
    memory: Annotated[
        str, SettingHelp("Memory of a container, such as `2g`; empty uses `execution.limits.memory_mb`.")
    ] = ""
    extra_args: Annotated[Words, SettingHelp("Additional limits of a container, such as `--pids-limit,256`.")] = ()
    engine: Annotated[
        str,
        SettingHelp("Socket of the container engine; empty uses Docker's default.", variables=("DOCKER_HOST",)),
    ] = ""
    cluster: Annotated[str, SettingHelp("ECS cluster for `fargate`.")] = ""
    task_definition: Annotated[str, SettingHelp("ECS task definition for `fargate`.")] = ""
    container: Annotated[str, SettingHelp("Container of the task definition that runs programs.")] = "exec"
    bucket: Annotated[str, SettingHelp("S3 bucket that transfers files to and from tasks of `fargate`.")] = ""
    region: Annotated[
        str, SettingHelp("AWS region for `fargate`; empty uses the AWS configuration.", variables=("AWS_REGION",))
    ] = ""
    endpoint_url: Annotated[
        Url,
        SettingHelp("Endpoint URL of AWS-compatible services; empty uses AWS.", variables=("AWS_ENDPOINT_URL",)),
    ] = ""
    subnets: Annotated[Words, SettingHelp("Subnets for tasks of `fargate`.")] = ()
    security_groups: Annotated[Words, SettingHelp("Security groups for tasks of `fargate`.")] = ()
    descriptor_payload_scope: Annotated[
        PayloadScope,
        SettingHelp("Bundle settings that a remote supervisor receives: all, or only those of the active bundle."),
    ] = "full"

    def with_profile(self) -> "RuntimeSettings":
        """Return these settings with the selected profile applied; raise `KeyError` if the profile is unknown."""
        if not self.profile:
            return self
        profile = self.profiles[self.profile]
        overrides = {name: value for name in profile.__struct_fields__ if (value := getattr(profile, name)) is not None}
        return msgspec.structs.replace(self, **overrides)


class ExecutionLimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one program."""

    timeout_s: Annotated[Seconds, SettingHelp("Default timeout of a program in seconds.")] = _LIMITS.wall_s
    max_timeout_s: Annotated[Seconds, SettingHelp("Maximum timeout in seconds that a call may request.")] = 600.0
    cpu_s: Annotated[Seconds, SettingHelp("Processor time of a program in seconds.")] = 600.0
    memory_mb: Annotated[MemoryMib, SettingHelp("Memory of a program in MiB, for all its processes together.")] = (
        _LIMITS.memory_bytes // MIB
    )
    processes: Annotated[Processes, SettingHelp("Number of processes and threads of a program.")] = _LIMITS.processes
    open_files: Annotated[OpenFiles, SettingHelp("Number of files that one process of a program may have open.")] = (
        _LIMITS.open_files
    )
    file_mb: Annotated[Whole, SettingHelp("Largest file that a program may write, in MiB.")] = _LIMITS.file_bytes // MIB
    growth_mb: Annotated[Whole, SettingHelp("Total size of the files that a program may write, in MiB.")] = (
        _LIMITS.growth_bytes // MIB
    )
    growth_files: Annotated[Whole, SettingHelp("Maximum number of files that a program may create.")] = (
        _LIMITS.growth_files
    )
    output_kb: Annotated[Whole, SettingHelp("Total size of a program's output in KiB.")] = _LIMITS.output_bytes // 1024
    tool_calls: Annotated[Whole, SettingHelp("Maximum number of tool calls that a program may make.")] = (
        _LIMITS.tool_calls
    )
    tool_mb: Annotated[
        Whole, SettingHelp("Total size of the parameters and results of a program's tool calls, in MiB.")
    ] = _LIMITS.tool_bytes // MIB

    def to_limits(self) -> ExecutionLimits:
        """Return these limits in the form that sandboxes use."""
        return ExecutionLimits(
            wall_s=self.timeout_s,
            cpu_s=self.cpu_s,
            memory_bytes=self.memory_mb * MIB,
            processes=self.processes,
            open_files=self.open_files,
            file_bytes=self.file_mb * MIB,
            growth_bytes=self.growth_mb * MIB,
            growth_files=self.growth_files,
            output_bytes=self.output_kb * 1024,
            tool_calls=self.tool_calls,
            tool_bytes=self.tool_mb * MIB,
        )


class ExecutionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The execution of programs."""

    runtime: RuntimeSettings = RuntimeSettings()
    limits: ExecutionLimitSettings = ExecutionLimitSettings()
