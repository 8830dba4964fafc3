"""The cloud: calls of AWS, in the only form in which the rest knows them: a value comes back, or a `CloudError`."""

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
_NO_ACCESS: Final = frozenset(
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
"""What does not go away by itself: without rights, credentials, a way to the service or the things that were named."""


class CloudError(Exception):
    """A call that AWS did not carry out; `code` is its own word for why."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"AWS refused {operation} ({code}): {message}")
        self.operation, self.code = operation, code

    @property
    def unusable(self) -> bool:
        """Whether the next call would fail for the same reason, until somebody sets something right."""
        return self.code in _NO_ACCESS


class Answered(msgspec.Struct, frozen=True):
    """An answer of which nothing is needed."""


class Cloud:
    """The services of one region; each call blocks, so it is made in a thread, and clients may be shared by threads."""

    def __init__(self, region: str = "", endpoint_url: str = "") -> None:
        self._region, self._endpoint_url = region, endpoint_url
        self._clients: dict[Service, Any] = {}

    def call(self, service: Service, operation: str, arguments: "dict[str, object]") -> object:
        """The service's answer, for `msgspec.convert` to read; raises `CloudError`."""
        client = self._client(service)
        errors = cast(Any, importlib.import_module("botocore.exceptions"))
        try:
            return getattr(client, operation)(**arguments)
        except errors.ClientError as error:
            said = error.response.get("Error", {})
            raise CloudError(operation, str(said.get("Code", "")), str(said.get("Message", ""))) from None
        except (errors.BotoCoreError, errors.HTTPClientError) as error:
            raise CloudError(operation, type(error).__name__, str(error)) from None

    def _client(self, service: Service) -> Any:
        with _making:
            if service not in self._clients:
                self._clients[service] = _made(service, self._region, self._endpoint_url)
            return self._clients[service]


_making: Final = threading.Lock()
"""Clients are made one at a time: the session that makes them is not for several threads."""


@cache
def _session() -> Any:
    """The one session of this process: it reads the descriptions of the services, which takes long, only once."""
    return cast(Any, importlib.import_module("boto3.session")).Session()


def _made(service: Service, region: str, endpoint_url: str) -> Any:
    try:
        session = _session()
        config = cast(Any, importlib.import_module("botocore.config"))
        errors = cast(Any, importlib.import_module("botocore.exceptions"))
    except ImportError:
        raise SandboxUnavailableError(INSTALL) from None
    # A service of one's own has no names of buckets in its host name.
    style = {"addressing_style": "path"} if endpoint_url else {}
    settings = config.Config(retries={"mode": "standard", "max_attempts": _ATTEMPTS}, s3=style, **_TIMEOUTS_S)
    try:
        return session.client(service, region_name=region or None, endpoint_url=endpoint_url or None, config=settings)
    except (errors.BotoCoreError, ValueError) as error:
        raise CloudError(f"a client of {service}", type(error).__name__, str(error)) from None
