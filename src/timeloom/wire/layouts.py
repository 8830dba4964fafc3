"""Layouts: which fields of each block go into `text`, `meta` and `path` of its JSON object."""

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Annotated, Final, Literal, cast

import msgspec
from msgspec import Meta

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    ConversationStarted,
    Digest,
    Hosting,
    Note,
    Notes,
    PlanRecorded,
    PlansCompacted,
    ResultContent,
    ResultDigest,
    ResultStatus,
    SourcesAdded,
    ToolCall,
)
from timeloom.core.ids import CallId, PlanId, TurnId
from timeloom.core.paths import parse_long, to_physical
from timeloom.core.plans.snapshot import PlanSnapshot, StepStatus
from timeloom.core.sources import row_from_json, row_to_json
from timeloom.core.timeline import Draft

Fields = dict[str, object]

_JSON: Final = msgspec.json.Decoder(dict[str, object])

SCHEMA_REF: Final = "#/components/schemas/{name}"
"""The form of references between schemas."""

SourceRaw = Annotated[msgspec.Raw, Meta(extra_json_schema={"$ref": SCHEMA_REF.format(name="SourceRow")})]
"""The encoded JSON object of a row of the sources pool."""

UNKNOWN_CALL: Final = CallId("unknown")
"""The call of a result that names none, as in logs of other programs."""

_CALL_FIELD: Final = re.compile(r'"(tool_id|tool_call_id)"\s{0,8}:\s{0,8}"([A-Za-z0-9_.:-]{1,128})"')


class Layout(msgspec.Struct, frozen=True):
    """How one block type is packed into `text` and unpacked again.

    `pack` removes the fields that belong into the text and returns the text; the remaining fields go into `meta`.
    `unpack` does the reverse: it adds the fields of the text to the fields from `meta`. `role` is stored in `meta.role`
    and distinguishes classes that share one `type`. The other fields describe both for the schema of the block.
    """

    pack: Callable[[Draft, Fields], str | None]
    unpack: Callable[[str | None, Fields], None]
    role: str = ""
    text_type: type[msgspec.Struct] | None = None
    """The type of the JSON value in `text`; None if the text is plain."""
    packed: tuple[str, ...] = ("text",)
    """The fields that are not in `meta`; all of them if empty."""
    added: type[msgspec.Struct] | None = None
    """Fields that are in `meta` besides those of the block."""


def layout_of(cls: type[AnyBlock]) -> Layout:
    """Return the layout of that class; the default stores the text in `text` and all other fields in `meta`."""
    return _LAYOUTS.get(cls, _PLAIN)


def _pack_plain(_: Draft, fields: Fields) -> str | None:
    return cast(str | None, fields.pop("text", None))


def _unpack_plain(text: str | None, fields: Fields) -> None:
    if text is not None:
        fields["text"] = text


def _pack_note(draft: Draft, fields: Fields) -> str | None:
    fields["channel"] = cast(Notes | Note, draft.block).channel
    return _pack_plain(draft, fields)


def _pack_all(_: Draft, fields: Fields) -> str:
    text = _dumps(fields)
    fields.clear()
    return text


def _unpack_all(text: str | None, fields: Fields) -> None:
    fields.update(_loads(text))


def _pack_digest(_: Draft, fields: Fields) -> str:
    return _dumps(_with_call(cast(Fields, fields.pop("digest")), fields))


def _unpack_digest(text: str | None, fields: Fields) -> None:
    fields["digest"] = _without_call(_loads(text), fields)


def _with_call(digest: Fields, fields: Fields) -> Fields:
    """Return the digest with the id of its call, which is stored only in the block."""
    if "tool_call_id" in digest or "tool_call_id" not in fields:
        return digest
    return {**digest, "tool_call_id": fields["tool_call_id"]}


def _without_call(digest: Fields, fields: Fields) -> Fields:
    if digest.get("tool_call_id") != fields.get("tool_call_id"):
        return digest
    return {name: value for name, value in digest.items() if name != "tool_call_id"}


def _pack_call(draft: Draft, fields: Fields) -> str:
    payload: Fields = {name: fields.pop(name) for name in ("tool_id", "tool_call_id")}
    if "blobs" not in fields:
        payload["params"] = msgspec.Raw(cast(str, fields.pop("params", "{}")).encode())
    payload["ts"] = draft.ts
    return _dumps(payload)


class _CallText(msgspec.Struct):
    tool_id: str
    tool_call_id: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


class CallText(msgspec.Struct):
    """The text of a call: the tool, the time, and the parameters, unless they are in the blob store."""

    tool_id: str
    tool_call_id: str
    ts: str
    params: dict[str, msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET


def _unpack_call(text: str | None, fields: Fields) -> None:
    try:
        call = msgspec.json.decode(text or "", type=_CallText)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        _unpack_shortened_call(text or "", fields)
        return
    fields |= {"tool_id": call.tool_id, "tool_call_id": call.tool_call_id}
    fields.setdefault("params", bytes(call.params).decode())


def _unpack_shortened_call(text: str, fields: Fields) -> None:
    """Add the ids of a call whose text was shortened and is not JSON any more; its parameters are lost."""
    for name, value in reversed(_CALL_FIELD.findall(text)):
        fields[name] = value
    fields.setdefault("params", "{}")


class PlanText(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A plan in its JSON form: statuses by step number."""

    plan_id: PlanId
    steps: tuple[str, ...]
    status: dict[str, StepStatus] = {}
    created_ts: str = ""
    last_ts: str = ""
    origin_turn_id: TurnId | None = None
    last_turn_id: TurnId | None = None
    closed_ts: str = ""
    superseded_ts: str = ""
    verbatim: bool = False
    snapshot_ref: str = ""


class PlansText(msgspec.Struct):
    """The plans of a compacted range."""

    plans: list[PlanText]


def _pack_plan(draft: Draft, fields: Fields) -> str:
    del fields["snapshot"]
    return _dumps(_plan_to_text(cast(PlanRecorded, draft.block).snapshot))


def _unpack_plan(text: str | None, fields: Fields) -> None:
    fields["snapshot"] = _plan_from_text(msgspec.json.decode(text or "", type=PlanText))


def _pack_plans(draft: Draft, fields: Fields) -> str:
    del fields["plans"]
    plans = cast(PlansCompacted, draft.block).plans
    return _dumps(PlansText([_plan_to_text(plan.snapshot, plan.snapshot_ref) for plan in plans]))


def _unpack_plans(text: str | None, fields: Fields) -> None:
    plans = msgspec.json.decode(text or "", type=PlansText).plans
    fields["plans"] = [{"snapshot": _plan_from_text(plan), "snapshot_ref": plan.snapshot_ref} for plan in plans]


def _plan_to_text(snapshot: PlanSnapshot, snapshot_ref: str = "") -> PlanText:
    kept = {name: getattr(snapshot, name) for name in PlanSnapshot.__struct_fields__ if name != "statuses"}
    status: dict[str, StepStatus] = {str(n): status for n, status in enumerate(snapshot.statuses, 1)}
    return PlanText(**kept, status=status, snapshot_ref=snapshot_ref)


def _plan_from_text(plan: PlanText) -> Fields:
    fields = cast(Fields, msgspec.to_builtins(plan))
    fields["statuses"] = [plan.status.get(str(n), "pending") for n in range(1, len(plan.steps) + 1)]
    return {name: value for name, value in fields.items() if name not in ("status", "snapshot_ref")}


class _SourcesText(msgspec.Struct):
    rows: list[dict[str, object]]


class SourcesText(msgspec.Struct):
    """Rows of the sources pool."""

    rows: list[SourceRaw]


class NoteMeta(msgspec.Struct):
    """The channel of a note, which its type determines."""

    channel: Literal["timeline_text", "internal"]


class ContentMeta(Hosting, frozen=True):
    """The place of a file: on disk and where it is hosted."""

    physical_path: str = ""


def _pack_sources(draft: Draft, fields: Fields) -> str:
    del fields["rows"]
    return _dumps(_SourcesText([row_to_json(row) for row in cast(SourcesAdded, draft.block).rows]))


def _unpack_sources(text: str | None, fields: Fields) -> None:
    rows = msgspec.json.decode(text or "", type=_SourcesText).rows
    fields["rows"] = [msgspec.to_builtins(row_from_json(row)) for row in rows]


def _pack_content(draft: Draft, fields: Fields) -> str | None:
    fields |= cast(Fields, fields.pop("hosting", {}))
    if "digest" in fields:
        fields["digest"] = _with_call(cast(Fields, fields["digest"]), fields)
    if place := _physical_path(cast(str, fields.pop("artifact_path"))):
        fields["physical_path"] = place
    return _pack_plain(draft, fields)


def _physical_path(path: str) -> str:
    """Return the path of the artifact on disk; empty if it is not a file."""
    return str(to_physical(parse_long(path))) if path.startswith("fi:") else ""


def _unpack_content(text: str | None, fields: Fields) -> None:
    _unpack_plain(text, fields)
    if isinstance(digest := fields.get("digest"), dict):
        known = cast(Fields, digest)
        fields.setdefault("tool_call_id", known.get("tool_call_id", UNKNOWN_CALL))
        fields["digest"] = _without_call(known, fields)
    fields.setdefault("tool_call_id", UNKNOWN_CALL)
    hosting = {name: fields.pop(name) for name in Hosting.__struct_fields__ if name in fields}
    if hosting:
        fields["hosting"] = hosting


def _dumps(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _loads(text: str | None) -> Fields:
    return _JSON.decode(text or "")


_CONTENT_FIELDS: Final = ("text", "artifact_path", "hosting")

_PLAIN: Final = Layout(_pack_plain, _unpack_plain)

_LAYOUTS: Final = MappingProxyType[type[AnyBlock], Layout](
    {
        ConversationStarted: Layout(_pack_all, _unpack_all, packed=()),
        SourcesAdded: Layout(_pack_sources, _unpack_sources, text_type=SourcesText, packed=("rows",)),
        AttachmentMeta: Layout(_pack_digest, _unpack_digest, text_type=Digest, packed=("digest",)),
        Attachment: Layout(_pack_content, _unpack_content, packed=_CONTENT_FIELDS, added=ContentMeta),
        Notes: Layout(_pack_note, _unpack_plain, added=NoteMeta),
        Note: Layout(_pack_note, _unpack_plain, added=NoteMeta),
        ToolCall: Layout(
            _pack_call, _unpack_call, text_type=CallText, packed=("tool_id", "tool_call_id", "params", "ts")
        ),
        ResultDigest: Layout(_pack_digest, _unpack_digest, role="digest", text_type=Digest, packed=("digest",)),
        ResultStatus: Layout(_pack_plain, _unpack_plain, role="status"),
        ResultContent: Layout(
            _pack_content, _unpack_content, role="content", packed=_CONTENT_FIELDS, added=ContentMeta
        ),
        PlanRecorded: Layout(_pack_plan, _unpack_plan, text_type=PlanText, packed=("snapshot",)),
        PlansCompacted: Layout(_pack_plans, _unpack_plans, text_type=PlansText, packed=("plans",)),
    }
)
