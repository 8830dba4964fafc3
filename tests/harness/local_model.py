"""Harness for the local model: weights loaded once per test run, and replies with placeholder text."""

import atexit
from functools import cache

from timeloom.core.policy.read_reply import read_reply
from timeloom.core.stream.decision import Decision
from timeloom.testing.conformance.scenes import system_text
from timeloom_local.engine import LlamaEngine
from timeloom_local.intents.kinds import Intent
from timeloom_local.intents.parse_message import parse_message
from timeloom_local.model import LocalModel
from timeloom_local.planner import plan_reply
from timeloom_local.prompt_content import PromptContent
from timeloom_local.read_catalogue import OfferedTool, read_catalogue
from timeloom_local.reply import Parts, Slot
from timeloom_local.routing.embeddings import SentenceModel
from timeloom_local.routing.router import Router
from timeloom_local.weights import router_weights

PLACEHOLDERS = {"string": "words", "raw": "{}"}


@cache
def sentences() -> SentenceModel:
    return SentenceModel(router_weights())


@cache
def router() -> Router:
    return Router(sentences())


@cache
def engine() -> LlamaEngine:
    opened = LlamaEngine()
    atexit.register(opened.close)
    return opened


@cache
def model() -> LocalModel:
    return LocalModel(engine())


def reply_parts(situation: PromptContent, offers: tuple[OfferedTool, ...] | None = None) -> Parts:
    return plan_reply(situation, read_catalogue(system_text().text) if offers is None else offers, router())


def next_decision(situation: PromptContent, offers: tuple[OfferedTool, ...] | None = None) -> Decision:
    """Return the decision of the next reply, with placeholder text in every slot that the model fills."""
    parts = reply_parts(situation, offers)
    reply = read_reply("".join(PLACEHOLDERS[part.form] if isinstance(part, Slot) else part for part in parts))
    assert not reply.faults
    assert not reply.remarks
    (decision,) = reply.decisions
    return decision


def intents(message: str) -> list[Intent]:
    """Return the intents of the message's clauses."""
    return [clause.intent for clause in parse_message(message)]
