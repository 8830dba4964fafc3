"""Calls AWS services: each call returns a value or raises `CloudError`."""

import importlib
import threading
from functools import cache
from typing import Any, Final, Literal, cast

import msgspec

from timeloom.ports.sandbox import SandboxUnavailableError

Service = Literal["s3", "secretsmanager", "ecs"]

INSTALL: Final = "the client of AWS is not installed; pip install 'timeloom[aws]'"

_TIMEOUTS_S: Final = {"connect_timeout": 10, "read_timeout": 60}
_ATTEMPTS: Final = 5
_PERMANENT_CODES: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
        "NoCredentialsError",
        "PartialCredentialsError",
        "NoRegionError",
        "EndpointConnectionError",
        "ConnectTimeoutError",
        "ClusterNotFoundException",
        "NoSuchBucket",
    }
)
"""Errors that a retry does not fix: missing permissions, credentials, connectivity or resources."""


class CloudError(Exception):
    """A call that AWS did not execute; `code` is AWS's error code."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"AWS refused {operation} ({code}): {message}")
        self.operation, self.code = operation, code

    @property
    def is_permanent(self) -> bool:
        """Whether every further call would fail for the same reason until the setup is fixed."""
        return self.code in _PERMANENT_CODES


class EmptyResponse(msgspec.Struct, frozen=True):
    """A response whose content is not needed."""


class Cloud:
    """The services of one region; each call blocks, so make it in a thread. Threads may share an instance."""

    def __init__(self, region: str = "", endpoint_url: str = "") -> None:
        self._region, self._endpoint_url = region, endpoint_url
        self._clients: dict[Service, Any] = {}

    def call(self, service: Service, operation: str, arguments: "dict[str, object]") -> object:
        """Return the service's response, to be read with `msgspec.convert`; raise `CloudError`."""
        client = self._client(service)
        errors = cast(Any, importlib.import_module("botocore.exceptions"))
        try:
            return getattr(client, operation)(**arguments)
        except errors.ClientError as error:
            details = error.response.get("Error", {})
            raise CloudError(operation, str(details.get("Code", "")), str(details.get("Message", ""))) from None
        except (errors.BotoCoreError, errors.HTTPClientError) as error:
            raise CloudError(operation, type(error).__name__, str(error)) from None

    def _client(self, service: Service) -> Any:
        with _client_lock:
            if service not in self._clients:
                self._clients[service] = _create_client(service, self._region, self._endpoint_url)
            return self._clients[service]


_client_lock: Final = threading.Lock()
"""Creates clients one at a time, because the session that creates them is not thread-safe."""


@cache
def _session() -> Any:
    """Return the one session of this process: it loads the slow service descriptions only once."""
    return cast(Any, importlib.import_module("boto3.session")).Session()


def _create_client(service: Service, region: str, endpoint_url: str) -> Any:
    try:
        session = _session()
        config = cast(Any, importlib.import_module("botocore.config"))
        errors = cast(Any, importlib.import_module("botocore.exceptions"))
    except ImportError:
        raise SandboxUnavailableError(INSTALL) from None
    # A custom endpoint does not support bucket names as host names.
    style = {"addressing_style": "path"} if endpoint_url else {}
    settings = config.Config(retries={"mode": "standard", "max_attempts": _ATTEMPTS}, s3=style, **_TIMEOUTS_S)
    try:
        return session.client(service, region_name=region or None, endpoint_url=endpoint_url or None, config=settings)
    except (errors.BotoCoreError, ValueError) as error:
        raise CloudError(f"a client of {service}", type(error).__name__, str(error)) from None
