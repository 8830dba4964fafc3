"""A tool of a bundle: it runs with the bundle's settings and secrets, and may have another id."""

from msgspec.structs import replace

from timeloom.bundles.context import BundleContext, enter_bundle
from timeloom.ports.tool import Outcome, ReconcilableTool, ReconcileResult, Tool, ToolContext, ToolSpec
from timeloom.tools.react.resolve import ContentReader, ContentSource


class BundleTool:
    """Runs a tool inside `enter_bundle`, so that `get_settings` and `get_secret` answer for the tool's bundle."""

    def __init__(self, tool: Tool, context: BundleContext, tool_id: str = "") -> None:
        self._tool = tool
        self._context = context
        self._spec = replace(tool.spec, tool_id=tool_id) if tool_id else tool.spec

    def with_source(self, source: ContentSource) -> "BundleTool":
        """Return the tool with another source of content, if it reads content at all."""
        inner = self._tool.with_source(source) if isinstance(self._tool, ContentReader) else self._tool
        return BundleTool(inner, self._context, self._spec.tool_id)

    @property
    def place(self) -> str:
        """The file and the line of the tool, if it knows them."""
        return str(getattr(self._tool, "place", ""))

    @property
    def spec(self) -> ToolSpec:
        """The spec of the tool, with the id that it has in the bundle."""
        return self._spec

    async def call(self, params: str, context: ToolContext) -> Outcome:
        """Run the call for the bundle."""
        with enter_bundle(self._context):
            return await self._tool.call(params, context)

    async def reconcile(self, params: str, context: ToolContext) -> ReconcileResult:
        """Return the outcome of an earlier call, if the tool can find it out."""
        if not isinstance(self._tool, ReconcilableTool):
            return "unknown"
        with enter_bundle(self._context):
            return await self._tool.reconcile(params, context)
