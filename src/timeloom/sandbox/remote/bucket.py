"""Stores and reads objects of an S3 bucket, through which a caller and its task exchange files."""

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from timeloom.sandbox.remote.cloud import Cloud, CloudError

_ABSENT: Final = frozenset({"NoSuchKey", "404", "NotFound"})
_DELETE_AT_ONCE: Final = 1000
_CHUNK_BYTES: Final = 1024 * 1024


class BucketObject(msgspec.Struct, frozen=True, rename="pascal"):
    """An object of the bucket."""

    key: str
    last_modified: datetime


class _ListResponse(msgspec.Struct, frozen=True, rename="pascal"):
    contents: tuple[BucketObject, ...] = ()
    is_truncated: bool = False
    next_continuation_token: str = ""


class Bucket:
    """An S3 bucket; every call blocks and raises `CloudError` if the service refuses."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self._cloud, self.name = cloud, name

    def check(self) -> None:
        """Raise if the bucket does not exist or is not accessible."""
        self._cloud.call("s3", "head_bucket", {"Bucket": self.name})

    def put(self, key: str, data: bytes) -> None:
        """Store the bytes."""
        self._cloud.call("s3", "put_object", {"Bucket": self.name, "Key": key, "Body": data})

    def put_file(self, key: str, path: Path) -> None:
        """Store the content of the file."""
        with path.open("rb") as file:
            self._cloud.call("s3", "put_object", {"Bucket": self.name, "Key": key, "Body": file})

    def get(self, key: str, most_bytes: int) -> bytes | None:
        """Return the object, or None if there is none; raise `ValueError` before reading a larger one."""
        found = self._open_object(key, most_bytes)
        if found is None:
            return None
        with contextlib.closing(found["Body"]) as body:
            return body.read(most_bytes)

    def get_file(self, key: str, path: Path, most_bytes: int) -> bool:
        """Write the object into a new file and return True; return False if there is none."""
        found = self._open_object(key, most_bytes)
        if found is None:
            return False
        with contextlib.closing(found["Body"]) as body, path.open("xb") as file:
            for piece in body.iter_chunks(_CHUNK_BYTES):
                file.write(piece)
        return True

    def list_objects(self, prefix: str) -> Iterator[BucketObject]:
        """Yield all objects with that key prefix."""
        token = ""
        while True:
            arguments: dict[str, object] = {"Bucket": self.name, "Prefix": prefix}
            if token:
                arguments["ContinuationToken"] = token
            page = msgspec.convert(self._cloud.call("s3", "list_objects_v2", arguments), _ListResponse)
            yield from page.contents
            if not page.is_truncated:
                return
            token = page.next_continuation_token

    def remove(self, keys: list[str]) -> None:
        """Remove the objects; missing ones are no error."""
        for at in range(0, len(keys), _DELETE_AT_ONCE):
            named = [{"Key": key} for key in keys[at : at + _DELETE_AT_ONCE]]
            self._cloud.call("s3", "delete_objects", {"Bucket": self.name, "Delete": {"Objects": named, "Quiet": True}})

    def remove_prefix(self, prefix: str) -> None:
        """Remove all objects with that key prefix."""
        self.remove([each.key for each in self.list_objects(prefix)])

    def _open_object(self, key: str, most_bytes: int) -> "dict[str, Any] | None":
        try:
            response = self._cloud.call("s3", "get_object", {"Bucket": self.name, "Key": key})
        except CloudError as error:
            if error.code in _ABSENT:
                return None
            raise
        fields = cast("dict[str, Any]", response)
        if fields["ContentLength"] > most_bytes:
            fields["Body"].close()
            raise ValueError(f"an object has {fields['ContentLength']} bytes, of {most_bytes} at most")
        return fields
