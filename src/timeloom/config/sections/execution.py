"""Settings of execution: where programs that an agent writes are run, and what they may use."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from timeloom.config.field_help import About
from timeloom.config.value_types import Seconds, Url, Words
from timeloom.ports.sandbox import MIB, Limits

Mode = Literal["local", "docker", "fargate"]
Strategy = Literal["split", "combined"]
PayloadScope = Literal["full", "active_bundle"]

Whole = Annotated[int, Meta(ge=1, le=10_000_000)]
Count = Annotated[int, Meta(ge=0, le=1000)]

_LIMITS: Final = Limits()


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to run programs under a name; what it leaves out is as in `execution.runtime`."""

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
    Mapping[str, Profile],
    Meta(description="a table of `mode`, `image`, `cpus` and the other keys of `execution.runtime` for each profile"),
]


class RuntimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where programs run."""

    mode: Annotated[
        Mode,
        About(
            "Where programs run: isolated on this machine, in containers, or as tasks of AWS Fargate.",
            option="--sandbox",
        ),
    ] = "local"
    enabled: Annotated[bool, About("Whether agents may run programs at all.")] = True
    profile: Annotated[str, About("Which of `execution.runtime.profiles` is used; empty is none.")] = ""
    profiles: Annotated[Profiles, About("Ways to run programs, by name.")] = msgspec.field(
        default_factory=dict[str, Profile]
    )
    python: Annotated[
        str, About("The interpreter of programs in `local`, with the libraries they use; empty is timeloom's own.")
    ] = ""
    warm: Annotated[
        Count, About("Interpreters that wait, isolated already, once a first program has run; 0 is none.")
    ] = 1
    image: Annotated[str, About("The image of programs in `docker`.")] = "py-code-exec:latest"
    container_strategy: Annotated[
        Strategy, About("Whether programs in `docker` have a container of their own, or share one with a supervisor.")
    ] = "split"
    network_mode: Annotated[str, About("The network of the supervisor in `combined`; programs have none.")] = "none"
    cpus: Annotated[str, About("Processors of a container, such as `1.5`; empty is no limit.")] = ""
    memory: Annotated[str, About("Memory of a container, such as `2g`; empty is `execution.limits.memory_mb`.")] = ""
    extra_args: Annotated[Words, About("Further limits of a container, such as `--pids-limit,256`.")] = ()
    engine: Annotated[
        str,
        About("The socket of the container engine; empty is Docker's own.", variables=("DOCKER_HOST",)),
    ] = ""
    cluster: Annotated[str, About("The ECS cluster of `fargate`.")] = ""
    task_definition: Annotated[str, About("The ECS task definition of `fargate`.")] = ""
    container: Annotated[str, About("The container of that task definition which runs programs.")] = "exec"
    bucket: Annotated[str, About("The S3 bucket through which files go to tasks of `fargate` and come back.")] = ""
    region: Annotated[
        str, About("The AWS region of `fargate`; empty is that of the AWS settings.", variables=("AWS_REGION",))
    ] = ""
    endpoint_url: Annotated[
        Url, About("Where AWS's services are, if not at AWS.", variables=("AWS_ENDPOINT_URL",), directs_key=True)
    ] = ""
    subnets: Annotated[Words, About("The subnets of tasks of `fargate`.")] = ()
    security_groups: Annotated[Words, About("The security groups of tasks of `fargate`.")] = ()
    descriptor_payload_scope: Annotated[
        PayloadScope, About("What of the bundles' settings a remote supervisor is given: all, or the active bundle's.")
    ] = "full"

    def chosen(self) -> "RuntimeSettings":
        """The same with what the chosen profile says; raises `KeyError` where no profile has that name."""
        if not self.profile:
            return self
        profile = self.profiles[self.profile]
        said = {name: value for name in profile.__struct_fields__ if (value := getattr(profile, name)) is not None}
        return msgspec.structs.replace(self, **said)


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one program may use."""

    timeout_s: Annotated[Seconds, About("Seconds that a program may run unless its call says otherwise.")] = (
        _LIMITS.wall_s
    )
    max_timeout_s: Annotated[Seconds, About("Most seconds that a call may give its program.")] = 600.0
    cpu_s: Annotated[Seconds, About("Processor seconds of a program.")] = 600.0
    memory_mb: Annotated[Whole, About("Memory of a program, all its processes together.")] = _LIMITS.memory_bytes // MIB
    processes: Annotated[Whole, About("Processes and threads of a program.")] = _LIMITS.processes
    open_files: Annotated[Whole, About("Files that one process of a program may have open.")] = _LIMITS.open_files
    file_mb: Annotated[Whole, About("Largest file that a program may write.")] = _LIMITS.file_bytes // MIB
    growth_mb: Annotated[Whole, About("What a program may write altogether.")] = _LIMITS.growth_bytes // MIB
    growth_files: Annotated[Whole, About("Most files that a program may make.")] = _LIMITS.growth_files
    output_kb: Annotated[Whole, About("What a program may print altogether.")] = _LIMITS.output_bytes // 1024
    tool_calls: Annotated[Whole, About("Most calls of tools that a program may make.")] = _LIMITS.tool_calls
    tool_mb: Annotated[Whole, About("What a program's calls of tools may hold altogether, parameters and answers.")] = (
        _LIMITS.tool_bytes // MIB
    )

    def limits(self) -> Limits:
        """The same, as a sandbox takes it."""
        return Limits(
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
    """How programs are run."""

    runtime: RuntimeSettings = RuntimeSettings()
    limits: LimitSettings = LimitSettings()
