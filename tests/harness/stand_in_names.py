"""Short aliases without a conversation: `turn_12` is `t12`, and its call `c3` is `t12.3`."""

import re

from timeloom.core.ids import CallId, TurnId


class StandInNames:
    """Aliases that follow from the ids alone."""

    def turn(self, turn_id: TurnId) -> str:
        return re.sub(r"\Aturn_(\d+)\Z", r"t\1", turn_id)

    def call(self, turn_id: TurnId, call_id: CallId) -> str:
        return re.sub(r"\Ac(\d+)\Z", rf"{self.turn(turn_id)}.\1", call_id)

    def path(self, path: str) -> str:
        short = re.sub(r"\A(fi:)turn_(\d+)\.files/", r"\1t\2/", path)
        short = re.sub(r"\A(tc:)turn_(\d+)\.c(\d+)\.", r"\1t\2.\3.", short)
        return re.sub(r"\A([a-z]+:)turn_(\d+)\.", r"\1t\2.", short)


NAMES = StandInNames()
