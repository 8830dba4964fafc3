"""Route of bundles: the agent apps that new conversations may belong to."""

from typing import Literal

import msgspec

from timeloom.server.request_context import RequestContext


class BundleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle; `fault` says why it takes no messages."""

    name: str
    title: str
    description: str
    state: Literal["ready", "disabled"]
    fault: str = ""


class BundleList(msgspec.Struct, frozen=True, kw_only=True):
    """All bundles; new conversations that name none belong to `default`."""

    bundles: tuple[BundleInfo, ...]
    default: str


async def list_bundles(context: RequestContext) -> BundleList:
    """List the bundles that a new conversation may name in `bundle`."""
    registry = context.services.bundles
    listed = tuple(
        BundleInfo(
            name=one.name,
            title=one.title,
            description=one.description,
            state=one.state,
            fault=one.fault.text if one.fault else "",
        )
        for one in registry.statuses()
    )
    return BundleList(bundles=listed, default=registry.default)
