"""Harness for the local model: weights loaded once per test run, and replies with placeholder text."""

import atexit
from functools import cache

from timeloom.core.policy.read_reply import read_reply
from timeloom.core.stream.decision import Decision
from timeloom.testing.conformance.scenes import system_text
from timeloom_local.engine import Engine
from timeloom_local.model import LocalModel
from timeloom_local.planner import next_reply
from timeloom_local.read_catalogue import Offer, read_offers
from timeloom_local.read_prompt import Situation
from timeloom_local.reply import Parts, Slot
from timeloom_local.routing.embeddings import SentenceModel
from timeloom_local.routing.router import Router
from timeloom_local.weights import router_weights

STANDS = {"string": "words", "lines": '"one", "two"', "raw": "{}"}


@cache
def sentences() -> SentenceModel:
    return SentenceModel(router_weights())


@cache
def router() -> Router:
    return Router(sentences())


@cache
def engine() -> Engine:
    opened = Engine()
    atexit.register(opened.close)
    return opened


@cache
def model() -> LocalModel:
    return LocalModel(engine())


def parts_of(situation: Situation, offers: tuple[Offer, ...] | None = None) -> Parts:
    return next_reply(situation, read_offers(system_text()) if offers is None else offers, router())


def decided(situation: Situation, offers: tuple[Offer, ...] | None = None) -> Decision:
    """Return the decision of the next reply, with placeholder text in every slot that the model fills."""
    parts = parts_of(situation, offers)
    reply = read_reply("".join(STANDS[part.form] if isinstance(part, Slot) else part for part in parts))
    assert not reply.faults
    assert not reply.remarks
    (decision,) = reply.decisions
    return decision
