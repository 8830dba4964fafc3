"""Decides which settings a file may set that was found in the current folder and not named by the user.

A folder may come from another person: an archive, a clone, a shared disk. So its `timeloom.toml` can only make
timeloom stricter or change details without effect on safety, cost or privacy. A setting without a decision is refused.
"""

from collections.abc import Mapping
from typing import Final, Literal

from timeloom.config.sections.governance import AllowanceSettings, BudgetSettings

FoundFileRule = Literal["any", "at_most_default"]
"""The values that a found file may set: any, or none above the default."""

ALLOWED: Final[Mapping[str, FoundFileRule]] = {
    "react.multi_action": "any",
    "react.agent_version": "any",
    # Each of these can only add a limit or a question, because by default there is none.
    "policy.tools": "any",
    "policy.ask_before": "any",
    "policy.calls_per_turn": "any",
    **{
        f"budget.{scope}.{measure}": "any"
        for scope in BudgetSettings.__struct_fields__
        for measure in AllowanceSettings.__struct_fields__
    },
    "react.max_iterations": "at_most_default",
    "models.max_output_tokens": "at_most_default",
    "timeouts.connect_s": "at_most_default",
    "timeouts.first_byte_s": "at_most_default",
    "timeouts.between_bytes_s": "at_most_default",
    "timeouts.call_s": "at_most_default",
    "modality.max_image_bytes": "at_most_default",
    "modality.max_doc_bytes": "at_most_default",
    "read.text_symbols": "at_most_default",
    "read.tokens": "at_most_default",
    "read.text_bytes": "at_most_default",
    "read.call_tokens": "at_most_default",
    "execution.limits.timeout_s": "at_most_default",
    "execution.limits.max_timeout_s": "at_most_default",
    "execution.limits.cpu_s": "at_most_default",
    "execution.limits.memory_mb": "at_most_default",
    "execution.limits.processes": "at_most_default",
    "execution.limits.open_files": "at_most_default",
    "execution.limits.file_mb": "at_most_default",
    "execution.limits.growth_mb": "at_most_default",
    "execution.limits.growth_files": "at_most_default",
    "execution.limits.output_kb": "at_most_default",
    "execution.limits.tool_calls": "at_most_default",
    "execution.limits.tool_mb": "at_most_default",
}
"""The settings that a found file may set."""

REFUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "chooses the folder whose conversations are read and resumed": ("data_dir",),
    "chooses which model acts and which service receives your text": ("model", "title_model", "summary_model"),
    "changes the instructions of the assistant": ("instructions", "instructions_file"),
    "can make budgets count too little": ("prices",),
    "decides where your key and your text are sent": (
        *("anthropic.api_key", "anthropic.base_url", "openai.api_key", "openai.base_url", "models.http_client"),
        *("telemetry.endpoint", "telemetry.content"),
    ),
    "changes what a model sees of the conversation, and its cost": (
        *("models.window_tokens", "models.thinking_tokens", "models.protocol", "protocols"),
        *("cache.min_rounds", "cache.offset_rounds", "cache.editable_tail_tokens", "cache.lifetime"),
        *(
            "context.edition",
            "context.keep_turns",
            "context.keep_rounds",
            "context.min_saving_tokens",
            "context.patience",
        ),
        *("context.compact_at", "context.keep_share", "context.summary_tokens", "context.prose_tokens"),
        *("context.text_chars", "context.result_chars", "context.result_items", "context.result_keys", "context.rows"),
    ),
    "decides what agents reach on the web, and which services receive your queries": (
        *("web.enabled", "web.search", "web.allow", "web.robots", "web.searxng_url", "web.brave_key", "web.tavily_key"),
        *("web.folder", "web.folder_url"),
    ),
    "decides whether agents render documents on this machine": ("documents.enabled",),
    "chooses which secrets the code of bundles reads": ("secrets",),
    "chooses the key that signs the log": ("storage.signing_key_file", "storage.signing_key"),
    "deletes conversations": ("retention.days",),
    "can let calls run without approval": ("policy.irreversible", "policy.new_addresses"),
    "chooses what runs on this machine or in your accounts, and how it is isolated": (
        *("execution.runtime.mode", "execution.runtime.enabled", "execution.runtime.profile"),
        *("execution.runtime.profiles", "execution.runtime.python", "execution.runtime.warm"),
        *("execution.runtime.image", "execution.runtime.container_strategy", "execution.runtime.network_mode"),
        *("execution.runtime.cpus", "execution.runtime.memory", "execution.runtime.extra_args"),
        *("execution.runtime.engine", "execution.runtime.cluster", "execution.runtime.task_definition"),
        *("execution.runtime.container", "execution.runtime.bucket", "execution.runtime.region"),
        *("execution.runtime.endpoint_url", "execution.runtime.subnets", "execution.runtime.security_groups"),
        "execution.runtime.descriptor_payload_scope",
    ),
    "decides who reaches the server, and with which limits": (
        *("server.host", "server.port", "server.mode", "server.token", "server.tokens_file", "server.hosts"),
        *("server.allow_origins", "server.proxies", "server.approvals", "server.models", "server.metrics"),
        *("server.reader_bytes", "server.heartbeat_s", "server.rest_s", "server.grace_s"),
        *("server.limits.requests_per_s", "server.limits.burst", "server.limits.failures_per_minute"),
        *("server.limits.streams", "server.limits.reruns", "server.limits.all_reruns", "server.limits.body_s"),
        *("server.limits.connections", "server.limits.connections_per_address"),
        *("server.limits.max_body_bytes", "server.limits.max_upload_bytes", "server.limits.max_uploads"),
        *("server.oidc.issuer", "server.oidc.audience", "server.oidc.algorithms", "server.oidc.leeway_s"),
        *("server.oidc.user_claim", "server.oidc.tenant", "server.oidc.tenant_claim", "server.oidc.project"),
        *("server.oidc.project_claim", "server.oidc.role_claim", "server.oidc.admin_role"),
        "server.oidc.approver_role",
    ),
}
"""The settings that a found file may not set, by their effect."""

_EFFECTS: Final = {key: effect for effect, keys in REFUSED.items() for key in keys}


def explain_refusal(key: str, value: object, default: object) -> str | None:
    """Return why a found file may not set this value, as a predicate of the setting; None if it may."""
    match ALLOWED.get(key):
        case "any":
            return None
        case "at_most_default":
            assert isinstance(value, int | float)
            assert isinstance(default, int | float)
            return None if value <= default else f"is above its default, {default}"
        case None:
            return _EFFECTS.get(key, "is not known to be harmless")
