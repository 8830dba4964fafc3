"""Region, address and signatures of requests to Amazon Bedrock, from the settings and AWS's own configuration."""

import importlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, cast

from timeloom.core.codes import CodedError
from timeloom.ports.model import ModelError

SIGNING_NAME: Final = "bedrock"

KEY_VARIABLE: Final = "AWS_BEARER_TOKEN_BEDROCK"
URL_VARIABLE: Final = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")

INSTALL: Final = "pip install 'timeloom[bedrock]'"


class BedrockAccess:
    """Finds the region and signs requests; with an API key of Bedrock, no request is signed."""

    def __init__(self, environ: Mapping[str, str], key: str | None, base_url: str | None) -> None:
        self._environ = environ
        self.key = key
        self.region = self._find_region(base_url)
        self.base_url = (base_url or f"https://bedrock-runtime.{self.region}.amazonaws.com").rstrip("/")

    def sign(self, url: str, body: bytes) -> dict[str, str]:
        """Return the headers that authorize this request; blocks, because credentials may come from a service.

        Raises `ModelError` if there are no credentials.
        """
        if self.key:
            return {"authorization": f"Bearer {self.key}"}
        errors = load_botocore("exceptions")
        try:
            credentials = self._credentials and self._credentials.get_frozen_credentials()
        except errors.BotoCoreError as error:
            raise ModelError("unauthorized", f"the AWS credentials cannot be used: {type(error).__name__}") from error
        if credentials is None:
            raise ModelError(
                "unauthorized",
                f"no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                f"{KEY_VARIABLE} to an API key of Bedrock",
            )
        request = load_botocore("awsrequest").AWSRequest("POST", url, data=body)
        load_botocore("auth").SigV4Auth(credentials, SIGNING_NAME, self.region).add_auth(request)
        return {name.lower(): str(value) for name, value in request.headers.items()}

    @cached_property
    def _session(self) -> Any:
        return load_botocore("session").Session()

    @cached_property
    def _credentials(self) -> Any:
        return self._session.get_credentials()

    def _find_region(self, base_url: str | None) -> str:
        named = next(filter(None, (self._environ.get(name, "").strip() for name in REGION_VARIABLES)), "")
        if region := named or cast("str | None", self._session.get_config_variable("region")) or "":
            return region
        if base_url and self.key:
            return ""
        raise CodedError("model_unknown", "Amazon Bedrock needs a region; set AWS_REGION, for example to eu-central-1")


def load_botocore(module: str) -> Any:
    """Import a module of botocore; raises `model_not_installed` with the command that installs it."""
    try:
        return cast(Any, importlib.import_module(f"botocore.{module}"))
    except ImportError as error:
        raise CodedError("model_not_installed", f"models of Amazon Bedrock need botocore; run {INSTALL}") from error
