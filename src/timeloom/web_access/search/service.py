"""Requests to search services that the operator configured by name, so not through the guard of web addresses."""

from collections.abc import Mapping
from typing import Final, TypeVar

import httpx2
import msgspec

from timeloom.platform.certificates import load_certificates
from timeloom.ports.web import SearchFailedError
from timeloom.web_access.download import USER_AGENT

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Largest answer of a service. Answers with twenty results have some 100 KB."""

MAX_HITS: Final = 50
"""Most results that are taken from one answer."""

TIMEOUT_S: Final = 10.0

T = TypeVar("T")


class SearchService:
    """Sends requests to one search service and decodes its answers."""

    def __init__(self, name: str, *, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._name = name
        self._transport = transport

    async def get(self, url: str, params: Mapping[str, str], headers: Mapping[str, str], kind: type[T]) -> T:
        """Return the decoded answer to a GET; raises `SearchFailedError`."""
        return await self._ask("GET", url, headers, kind, params=params)

    async def post(self, url: str, body: object, headers: Mapping[str, str], kind: type[T]) -> T:
        """Return the decoded answer to a POST of JSON; raises `SearchFailedError`."""
        sent = {"content-type": "application/json", **headers}
        return await self._ask("POST", url, sent, kind, content=msgspec.json.encode(body))

    async def _ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        kind: type[T],
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> T:
        sent = {"user-agent": USER_AGENT, "accept": "application/json", **headers}
        client = httpx2.AsyncClient(verify=load_certificates(), timeout=TIMEOUT_S, transport=self._transport)
        try:
            async with client, client.stream(method, url, headers=sent, params=params, content=content) as response:
                if response.status_code != 200:
                    raise SearchFailedError(_explain_status(self._name, response.status_code))
                return msgspec.json.decode(await _read(self._name, response), type=kind)
        except httpx2.TimeoutException as error:
            raise SearchFailedError(f"{self._name} did not answer within {TIMEOUT_S:g} s") from error
        # The texts of these errors may contain the address with its parameters.
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise SearchFailedError(f"{self._name} cannot be reached ({type(error).__name__})") from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise SearchFailedError(f"{self._name} answered in an unknown form") from error


async def _read(name: str, response: httpx2.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise SearchFailedError(f"{name} answered with more than {MAX_ANSWER_BYTES:,} bytes")
    return bytes(body)


def _explain_status(name: str, status: int) -> str:
    match status:
        case 401 | 403:
            return f"{name} refused the key; check its setting"
        case 402 | 429 | 432 | 433:
            return f"{name} has no more requests for this key now (status {status})"
        case _:
            return f"{name} answered with status {status}"
