"""Assembles the react tools for a registry."""

from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.react.checkout import checkout
from timeloom.tools.react.hide import HideTool
from timeloom.tools.react.patch import patch
from timeloom.tools.react.plan import plan
from timeloom.tools.react.pull import pull
from timeloom.tools.react.read import ReadTool
from timeloom.tools.react.rg import rg
from timeloom.tools.react.write import write


def react_tools(read_tool: ReadTool | None = None, hide_tool: HideTool | None = None) -> tuple[FunctionTool, ...]:
    """Return all react tools; `reading` and `hiding` carry the limits and settings of the runtime."""
    return (
        tool("react.read", effect="pure", examples=('{"paths":["fi:turn_1.files/report.md"]}',))(
            (read_tool or ReadTool()).read
        ),
        tool("react.rg", effect="pure", examples=('{"pattern":"TODO","roots":["files/"]}',))(rg),
        tool("react.pull", effect="idempotent", examples=('{"paths":["fi:turn_1.user.attachments/data.csv"]}',))(pull),
        tool("react.checkout", effect="idempotent", examples=('{"paths":["fi:turn_1.files/src/"]}',))(checkout),
        tool("react.write", effect="idempotent", examples=('{"path":"files/report.md","content":"# Report"}',))(write),
        tool(
            "react.patch",
            effect="idempotent",
            examples=('{"path":"files/report.md","patch":"@@ -1 +1 @@\\n-# Report\\n+# The report"}',),
        )(patch),
        tool("react.plan", effect="idempotent", examples=('{"mode":"new","steps":["collect","compare"]}',))(plan),
        tool(
            "react.hide",
            effect="idempotent",
            aliases=("react.memory_hide",),
            renamed={"replacement_text": "replacement"},
            examples=('{"path":"tc:turn_1.18f62649fb3b.result","replacement":"fares of three ferries"}',),
        )((hide_tool or HideTool()).hide),
    )
