"""The records port: small typed rows that people keep beside conversations, such as API keys and bundle state."""

import re
from typing import Final, Protocol

import msgspec

from timeloom.core.codes import CodedError

MAX_VALUE_BYTES: Final = 65_536
"""Largest value in bytes. Larger ones slow down every page of a list; large content belongs into a payload."""

MAX_KEY_CHARS: Final = 512
"""Longest key. A longer one would not fit into a database page with its value's head."""

MAX_NAME_CHARS: Final = 256
"""Longest tenant, project or user; user names of the server have at most 128 characters."""

MAX_PAGE: Final = 500
"""Most rows of a page. Larger requested limits are reduced to it."""

EXPIRED_PER_WRITE: Final = 32
"""Expired rows that a write with an expiry removes. With fewer than 2, a cache could grow without bound."""

ABSENT: Final = 0
"""The expected version of a row that must not exist."""

MAX_TIME_US: Final = 2**62
"""Latest expiry. It fits into a database integer."""

_KIND: Final = re.compile(r"[a-z][a-z0-9_]*(?:[.:-][A-Za-z0-9_]+)*", re.ASCII)
_MAX_KIND_CHARS: Final = 128


class RecordRefusedError(CodedError):
    """An address or a value does not have the form of a record; the message names the limit."""

    def __init__(self, message: str) -> None:
        super().__init__("record_refused", message)


class RecordConflictError(CodedError):
    """A record does not have the expected version; nothing was changed."""

    def __init__(self, address: "RecordAddress", expected: int, found: int) -> None:
        wanted, actual = (f"version {each}" if each else "no record" for each in (expected, found))
        super().__init__("record_conflict", f"{address.describe()}: expected {wanted}, found {actual}")
        self.expected = expected
        self.found = found


class RecordScope(msgspec.Struct, frozen=True):
    """The owner of records. An empty user means everyone of the project, an empty tenant the whole server."""

    tenant: str = ""
    project: str = ""
    user: str = ""

    def __post_init__(self) -> None:
        for name in (self.tenant, self.project, self.user):
            _check_text("a tenant, project or user", name, 0, MAX_NAME_CHARS)


class RecordAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one record: its kind, its owner and its key."""

    kind: str
    """The feature and type of the value, such as `api_key` or `bundle:shop`."""
    key: str
    tenant: str = ""
    project: str = ""
    user: str = ""

    def __post_init__(self) -> None:
        check_kind(self.kind)
        _check_text("a key", self.key, 1, MAX_KEY_CHARS)
        for name in (self.tenant, self.project, self.user):
            _check_text("a tenant, project or user", name, 0, MAX_NAME_CHARS)

    @property
    def sort_key(self) -> tuple[str, str, str, str, str]:
        """The position of the record in lists."""
        return self.kind, self.tenant, self.project, self.user, self.key

    def describe(self) -> str:
        """Return the kind and the beginning of the key, for messages."""
        return f"record {self.kind} {self.key[:40]!r}"


class StoredRecord(msgspec.Struct, frozen=True):
    """A record as it was stored."""

    address: RecordAddress
    value: bytes
    """A JSON object."""
    version: int
    """Grows with each change of its kind, so that no later row at the same address has the same version."""
    expires_us: int | None = None
    """Microseconds since 1970 from which the record counts as absent."""


class RecordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The records to list. None matches every name, and an empty text only records without one."""

    kind: str = ""
    """Empty matches every kind."""
    tenant: str | None = None
    project: str | None = None
    user: str | None = None
    prefix: str = ""
    """The beginning of the keys."""
    limit: int = 50
    cursor: str = ""
    """The cursor of the previous page; empty starts with the first."""

    def __post_init__(self) -> None:
        if self.kind:
            check_kind(self.kind)
        for name in (self.tenant, self.project, self.user, self.prefix):
            if name is not None:
                _check_text("a tenant, project, user or prefix", name, 0, MAX_KEY_CHARS)

    @property
    def size(self) -> int:
        """The limit, reduced or raised to between 1 and `MAX_PAGE`."""
        return max(1, min(self.limit, MAX_PAGE))

    def matches(self, address: RecordAddress) -> bool:
        """Whether the record belongs to the list, on any page of it."""
        return (
            self.kind in ("", address.kind)
            and self.tenant in (None, address.tenant)
            and self.project in (None, address.project)
            and self.user in (None, address.user)
            and address.key.startswith(self.prefix)
        )


class RecordPage(msgspec.Struct, frozen=True):
    """One page of records, by kind, tenant, project, user and key."""

    records: tuple[StoredRecord, ...]
    cursor: str = ""
    """Pass it to get the next page; empty on the last one."""


class Records(Protocol):
    """The records of a store. The promises are checked by `timeloom.testing.records_contract`.

    1. A write or delete with an expected version happens only at that version, regardless of concurrent requests from
       any process. It is durable when the call returns.
    2. A version is never used twice for an address, also not after a delete.
    3. No clock decides anything. A record whose expiry is at or before the `now_us` of a call is absent for that call.
       `now_us=0` sees every stored record. A write with an expiry removes some expired records of its kind.
    4. Erased records leave no readable bytes in the store's files after `Store.scrub`.
    """

    async def get(self, address: RecordAddress, *, now_us: int = 0) -> StoredRecord | None:
        """Return the record; None if there is none."""
        ...

    async def put(
        self,
        address: RecordAddress,
        value: bytes,
        *,
        expected: int | None,
        expires_us: int | None = None,
        now_us: int = 0,
    ) -> int:
        """Store the value, a JSON object of at most `MAX_VALUE_BYTES`, and return its version.

        `expected` is the version to replace, or `ABSENT` to create. None stores regardless of an earlier value. Raises
        `RecordConflictError` if the record has another version.
        """
        ...

    async def delete(self, address: RecordAddress, *, expected: int | None, now_us: int = 0) -> bool:
        """Delete the record at that version, and return whether there was one; None deletes any version.

        Raises `RecordConflictError` if the record has another version or does not exist at an expected one.
        """
        ...

    async def list(self, query: RecordQuery, *, now_us: int = 0) -> RecordPage:
        """Return one page of the matching records. A record that exists throughout is on exactly one page."""
        ...

    async def revision(self, kind: str) -> int:
        """Return a number that grows with each change of a record of that kind; 0 if there was none.

        Polling it is cheaper than listing.
        """
        ...

    async def erase_user(self, tenant: str, user: str, project: str | None = None) -> int:
        """Erase all records of the user, in every project unless one is named, and return their number."""
        ...

    async def erase_tenant(self, tenant: str) -> int:
        """Erase all records of the tenant and its users, and return their number."""
        ...


def check_kind(kind: str) -> None:
    """Raise `RecordRefusedError` if the text cannot be a kind."""
    if len(kind) > _MAX_KIND_CHARS or not _KIND.fullmatch(kind):
        raise RecordRefusedError(
            f"a kind has at most {_MAX_KIND_CHARS} characters and is like `api_key` or `bundle:shop`, got {kind[:40]!r}"
        )


def check_value(value: bytes, expires_us: int | None) -> None:
    """Raise `RecordRefusedError` if the value is too large or not a JSON object, or the expiry is out of range."""
    if len(value) > MAX_VALUE_BYTES:
        raise RecordRefusedError(f"a record has at most {MAX_VALUE_BYTES} bytes, got {len(value)}")
    try:
        # The decoder skips over values without reading their text.
        value.decode()
        msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordRefusedError(f"a record is a JSON object: {error}") from error
    if expires_us is not None and not 0 < expires_us <= MAX_TIME_US:
        raise RecordRefusedError(f"an expiry is between 1 and {MAX_TIME_US} microseconds, got {expires_us}")


def check_owner(tenant: str, user: str | None = None) -> None:
    """Raise `RecordRefusedError` for an empty name, which would erase records that belong to nobody alone."""
    for what, name in (("tenant", tenant), ("user", user)):
        if name == "":
            raise RecordRefusedError(f"erasing records needs the name of a {what}, got an empty one")


def make_record_cursor(address: RecordAddress) -> str:
    """Return the cursor for the page that starts after this record."""
    return msgspec.json.encode(address.sort_key).hex()


def parse_record_cursor(cursor: str) -> tuple[str, str, str, str, str]:
    """Return the position after which the page starts; raises `CodedError` if malformed."""
    try:
        return msgspec.json.decode(bytes.fromhex(cursor), type=tuple[str, str, str, str, str])
    except (ValueError, UnicodeDecodeError) as error:
        raise CodedError("cursor_malformed", f"cursor must come from a previous page, got {cursor[:40]!r}") from error


def _check_text(what: str, text: str, least: int, most: int) -> None:
    if not least <= len(text) <= most or "\0" in text or not _is_unicode(text):
        raise RecordRefusedError(f"{what} has {least} to {most} characters, without NUL, got {text[:40]!a}")


def _is_unicode(text: str) -> bool:
    """Whether the text has a UTF-8 form: no lone surrogates."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
