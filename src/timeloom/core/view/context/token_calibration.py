"""What providers report of model calls: how their counts compare to ours, and what the last prompt cost the cache."""

import msgspec

from timeloom.core.blocks import ModelAnswered, ModelCalled, Usage
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.timeline import Entry
from timeloom.core.tokens import Calibration


class AskedFor(msgspec.Struct, frozen=True, gc=False):
    """A request without an outcome: which model was asked, and with how many tokens by our own count."""

    model: str
    estimated_tokens: int


class ReportedView(msgspec.Struct):
    """For each model, under the name by which it is asked, how its own count of a prompt compares to the estimate."""

    calibrations: dict[str, Calibration] = {}
    last: Usage | None = None
    """What the newest decision used, if its provider said so."""
    asked: dict[CallPurpose, AskedFor] = {}

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        match entry.block:
            case ModelCalled(purpose=purpose, model=model, estimated_tokens=estimated):
                self.asked[purpose] = AskedFor(model, estimated)
            case ModelAnswered() as answer:
                self._add_answer(answer)
            case _:
                pass

    def tokens(self, model: str, estimated: int) -> int:
        """The estimate in that model's own tokens, as far as its calls have taught; what fits is asked with this."""
        known = self.calibrations.get(model)
        return known.tokens(estimated) if known else estimated

    def _add_answer(self, answer: ModelAnswered) -> None:
        asked = self.asked.pop(answer.purpose, None)
        # A call that did not come to its end may have been counted only in part.
        if answer.error or answer.interrupted or not answer.usage_reported:
            return
        usage = answer.usage
        if asked:
            prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
            known = self.calibrations.get(asked.model, Calibration())
            if (learned := known.observe(asked.estimated_tokens, prompt)) is not known:
                self.calibrations[asked.model] = learned
        if answer.purpose == "decision":
            self.last = usage
