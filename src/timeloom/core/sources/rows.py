"""Rows of the sources pool: their fields, JSON form and admission rules."""

import math
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeVar, cast

import msgspec
from msgspec.structs import asdict, fields, replace

from timeloom.core.codes import CodedError
from timeloom.core.paths import MAX_SID
from timeloom.core.payload import BlobRef, Data, Text, size_of
from timeloom.core.sources.url import host_of, is_unicode

MAX_BASE64_CHARS: Final = 4_000
"""Longest base64 text of a binary preview; a longer one is dropped. A larger limit makes prompts pay for images
twice."""

MAX_TEXT_CHARS: Final = 2_000
"""Longest snippet of a row; longer text is kept as content. A larger limit makes every entry of the log heavy."""

MAX_TITLE_CHARS: Final = 500
"""Longest title of a row in the pool; longer titles are cut. A smaller limit cuts titles of papers."""

MAX_FIELD_CHARS: Final = 65_536
"""Longest value of any field except `text` and `content`. A smaller limit refuses data URIs of icons; a larger one
makes rows heavy."""

MAX_EXTRA_DEPTH: Final = 32
"""Deepest nesting of unknown fields; deeper ones cannot be traversed safely."""

COMPACT_TEXT_CHARS: Final = 240
"""Longest snippet of a compact row. A smaller limit gives too little to choose by; a larger one makes `timeline.json`
repeat the pool."""

MAX_COMPACT_CHARS: Final = 8_192
"""Longest address or icon in a compact row; a longer one is omitted, since a cut address is a different address."""

SourceType = Literal["web", "file", "attachment", "manual"]


class SourceError(CodedError):
    """Error for a malformed source row, or for a source that may not enter the pool."""


class NewSource(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A source without an id; `extra` is the JSON object of its unknown fields, as text with sorted keys."""

    source_type: SourceType = "web"
    title: str = ""
    url: str = ""
    text: str = ""
    content: Text = ""
    mime: str = ""
    size_bytes: int | None = None
    base64: Data | None = None
    artifact_path: str = ""
    physical_path: str = ""
    rn: str = ""
    hosted_uri: str = ""
    key: str = ""
    domain: str = ""
    favicon: str = ""
    published_time_iso: str = ""
    modified_time_iso: str = ""
    fetched_time_iso: str = ""
    provider_rank: float | None = None
    weighted_rank: float | None = None
    objective_relevance: float | None = None
    query_relevance: float | None = None
    authority: float | str | None = None
    extra: str = ""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _check_field(name, getattr(self, name))
        if self.extra:
            parse_extra(self.extra)


class SourceRow(NewSource, frozen=True, kw_only=True, omit_defaults=True):
    """A source in the pool, with the id that citations name."""

    sid: int

    def __post_init__(self) -> None:
        NewSource.__post_init__(self)
        if not 1 <= self.sid <= MAX_SID:
            raise _malformed_error(f"sid is from 1 to {MAX_SID}, got {self.sid}")


_FIELD_NAMES: Final = frozenset(field.name for field in fields(SourceRow)) - {"extra"}
_INT_END: Final = 2**63
_MAX_MESSAGE_CHARS: Final = 200
_Kind = TypeVar("_Kind", bound=NewSource)


def row_from_json(value: object) -> SourceRow:
    """Return the row that a JSON object describes; nulls are ignored and an oversized base64 text is dropped."""
    return _from_json(_json_object(value), SourceRow)


def source_from_json(value: object) -> NewSource:
    """Return the source that a JSON object describes, ignoring its `sid`."""
    known = _json_object(value)
    return _from_json({name: known[name] for name in known if name != "sid"}, NewSource)


def row_to_json(row: NewSource) -> dict[str, object]:
    """Return the row as a JSON object: id and type, then all set fields, then unknown fields."""
    plain = cast("dict[str, object]", msgspec.to_builtins(row))
    plain.pop("extra", None)
    sid = {"sid": plain.pop("sid")} if "sid" in plain else {}
    return {**sid, "source_type": row.source_type, **plain, **parse_extra(row.extra)}


def with_sid(source: NewSource, sid: int) -> SourceRow:
    """Return the source as the row with that id."""
    values = asdict(source)
    values["sid"] = sid
    return SourceRow(**values)


def make_manual_source(title: str, text: str, url: str = "") -> NewSource:
    """Return a source that a person entered by hand."""
    if not (title.strip() or text.strip() or url.strip()):
        raise _malformed_error("a manual source has a title, a text or a url, got none")
    return NewSource(source_type="manual", title=title, text=text, url=url)


def is_eligible_mime(mime: str) -> bool:
    """Return whether a file or attachment of this MIME type may enter the pool; parameters and case are ignored."""
    kind, _, subtype = mime.partition(";")[0].strip().lower().partition("/")
    return (kind in ("text", "image") and subtype != "") or (kind, subtype) == ("application", "pdf")


def prepare_for_pool(source: NewSource) -> NewSource:
    """Return the source as it enters the pool: checked, with a short snippet and a domain, without a large preview."""
    if source.source_type in ("file", "attachment"):
        _check_file(source)
    content = source.content or (source.text if len(source.text) > MAX_TEXT_CHARS else "")
    text = source.text or (content if isinstance(content, str) else "")
    return replace(
        source,
        title=_shorten(source.title, MAX_TITLE_CHARS),
        text=_shorten(text, MAX_TEXT_CHARS),
        content=content,
        base64=_drop_large_preview(source.base64),
        domain=source.domain or host_of(source.url),
    )


def to_compact_row(row: SourceRow, text_chars: int = COMPACT_TEXT_CHARS) -> SourceRow:
    """Return the row for the exported timeline: the fields that citations and lists show, and the paths to the rest."""
    return SourceRow(
        sid=row.sid,
        source_type=row.source_type,
        title=_shorten(row.title, MAX_TITLE_CHARS),
        url=_drop_if_long(row.url),
        text=_shorten(row.text, text_chars),
        mime=_drop_if_long(row.mime),
        domain=_drop_if_long(row.domain),
        favicon=_drop_if_long(row.favicon),
        artifact_path=_drop_if_long(row.artifact_path),
        physical_path=_drop_if_long(row.physical_path),
        published_time_iso=_drop_if_long(row.published_time_iso),
        objective_relevance=row.objective_relevance,
    )


def parse_extra(extra: str) -> dict[str, object]:
    """Return the JSON object in the text of an `extra` field."""
    if not extra:
        return {}
    try:
        found = msgspec.json.decode(extra, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _malformed_error("extra is the text of a JSON object that nests a little, got something else") from error
    if names := found.keys() & _FIELD_NAMES:
        raise _malformed_error(f"extra holds unknown fields only, got {min(names)}")
    level: list[object] = [found]
    for _ in range(MAX_EXTRA_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
    if level:
        raise _malformed_error(f"extra nests at most {MAX_EXTRA_DEPTH} deep")
    return found


def to_json_text(value: Mapping[str, object]) -> str:
    """Return the object as JSON text with sorted keys, so that equal objects have equal texts."""
    try:
        return msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _malformed_error("unknown fields are JSON values that nest a little, got something else") from error


def _malformed_error(message: str) -> SourceError:
    return SourceError("source_malformed", message)


def _check_field(name: str, value: object) -> None:
    match value:
        case str():
            if len(value) > MAX_FIELD_CHARS and name not in ("text", "content"):
                raise _malformed_error(f"{name} has at most {MAX_FIELD_CHARS} characters, got {len(value)}")
            if not is_unicode(value):
                raise _malformed_error(f"{name} is Unicode text, got a lone surrogate")
        case int():
            # The message omits the value: converting a huge integer to text or float can fail.
            if not (0 if name.endswith("size_bytes") else -_INT_END) <= value < _INT_END:
                raise _malformed_error(
                    f"{name} is an integer of 64 bits, and a size is not negative; got one out of range"
                )
        case float():
            if not math.isfinite(value):
                raise _malformed_error(f"{name} is a finite number, got {value}")
        case BlobRef():
            _check_field(f"{name}.sha256", value.sha256)
            _check_field(f"{name}.size_bytes", value.size_bytes)
        case _:
            pass


def _children(value: object) -> Iterable[object]:
    match value:
        case dict():
            return cast("dict[str, object]", value).values()
        case list():
            return cast("list[object]", value)
        case _:
            return ()


def _json_object(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _malformed_error(f"a source row is a JSON object, got {type(value).__name__}")
    return cast("Mapping[str, object]", value)


def _from_json(given: Mapping[str, object], kind: type[_Kind]) -> _Kind:
    known = {name: value for name, value in given.items() if name in _FIELD_NAMES and value is not None}
    unknown = {name: value for name, value in given.items() if name not in _FIELD_NAMES}
    icon = unknown.get("favicon_url")
    if icon is None or known.setdefault("favicon", icon) == icon:
        unknown.pop("favicon_url", None)
    if isinstance(preview := known.get("base64"), str) and len(preview) > MAX_BASE64_CHARS:
        del known["base64"]
    known.setdefault("source_type", _likely_type(known))
    if unknown:
        known["extra"] = to_json_text(unknown)
    try:
        return msgspec.convert(known, kind)
    except msgspec.ValidationError as error:
        raise _malformed_error(str(error)[:_MAX_MESSAGE_CHARS]) from error


def _likely_type(known: Mapping[str, object]) -> SourceType:
    if known.get("physical_path") or known.get("artifact_path"):
        return "file"
    return "web" if known.get("url") else "manual"


def _check_file(source: NewSource) -> None:
    if not is_eligible_mime(source.mime):
        got = source.mime[:_MAX_MESSAGE_CHARS] or "none"
        raise SourceError(
            "source_not_eligible", f"a {source.source_type} is text/*, image/* or application/pdf, got {got}"
        )
    if not (source.physical_path and source.artifact_path):
        raise _malformed_error(f"a {source.source_type} has a physical_path and an artifact_path")


def _shorten(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    return text[: chars - 1] + "…" if chars > 0 else ""


def _drop_if_long(text: str) -> str:
    return text if len(text) <= MAX_COMPACT_CHARS else ""


def _drop_large_preview(preview: Data | None) -> Data | None:
    """Return the preview if its base64 text, four characters for three bytes, is within the limit; else None."""
    return preview if preview and (size_of(preview) + 2) // 3 * 4 <= MAX_BASE64_CHARS else None
