"""The tool `react.form`: asks the user by a typed form. An agent has it only if it is given to it."""

from typing import Final

from timeloom.core.blocks import ToolTraits
from timeloom.core.policy.forms import Form, FormField, check_form
from timeloom.ports.tool import Outcome
from timeloom.tools.define import tool

SHOWN: Final = (
    "The form is shown to the user. End the turn now, and say in your answer what you ask for. "
    "The values begin a later turn, as an event of the kind form."
)

_EXAMPLE: Final = (
    '{"title":"Your trip","fields":[{"name":"day","label":"Which day?","type":"date","required":true},'
    '{"name":"class","type":"choice","options":["first","second"]}]}'
)


@tool(
    "react.form",
    effect="pure",
    examples=(_EXAMPLE,),
    traits=ToolTraits(result_text="own", allows_answer=True, asks_by_form=True, conversation_only=True),
)
async def form(title: str, fields: tuple[FormField, ...]) -> Outcome:
    """Ask the user by a form, if you need several facts or a choice between options.

    fields: in order; each has a name, a label, a type, and options if they are to choose from
    """
    check_form(Form(title=title, fields=fields))
    return Outcome(status=SHOWN)
