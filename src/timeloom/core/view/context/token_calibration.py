"""The view that compares estimated with reported prompt tokens for each model."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks import ModelAnswered, ModelCalled, Usage
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.timeline import Entry
from timeloom.core.tokens import Calibration
from timeloom.core.view.block_view import BlockView, Folds


class PendingRequest(msgspec.Struct, frozen=True, gc=False):
    """A request without an outcome: the model, and the estimated prompt tokens."""

    model: str
    estimated_tokens: int


class TokenCalibrationView(BlockView, msgspec.Struct):
    """For each model by its requested name, the ratio of reported to estimated prompt tokens."""

    calibrations: dict[str, Calibration] = {}
    last: Usage | None = None
    """The reported usage of the newest decision, if the provider reported one."""
    asked: dict[CallPurpose, PendingRequest] = {}

    def to_model_tokens(self, model: str, estimated: int) -> int:
        """Return the estimate in the model's tokens, for the check whether a request fits the window."""
        known = self.calibrations.get(model)
        return known.to_model_tokens(estimated) if known else estimated

    def _add_request(self, _: Entry, block: ModelCalled) -> None:
        self.asked[block.purpose] = PendingRequest(block.model, block.estimated_tokens)

    def _add_answer(self, _: Entry, answer: ModelAnswered) -> None:
        asked = self.asked.pop(answer.purpose, None)
        # The usage of an incomplete call may cover only a part of it.
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

    folds: ClassVar[Folds] = {ModelCalled: _add_request, ModelAnswered: _add_answer}
