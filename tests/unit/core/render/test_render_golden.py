"""Whole prompts, word for word; `TIMELOOM_WRITE_GOLDEN=1` writes them anew, to be read before they are committed."""

import os
from collections.abc import Sequence

import pytest

from tests.harness.repository import GOLDEN
from timeloom.cli.commands.demo.script import demo_steps
from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    Digest,
    Hidden,
    Note,
    PlanRecorded,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    SourcesAdded,
    ToolCall,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, PlanId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.policy.cache.points import find_cache_points
from timeloom.core.render.catalogue import CatalogueSkill, CatalogueTool
from timeloom.core.render.entry_text import needed_payloads
from timeloom.core.render.facts import AnnouncedBudget, RoundFacts
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.renderer import Renderer
from timeloom.core.render.segments import RenderedSegment, as_text
from timeloom.core.render.system import build_system_text
from timeloom.core.render.v1.renderer import V1_RENDERER
from timeloom.core.render.v2.renderer import V2_RENDERER
from timeloom.core.render.v3.renderer import V3_RENDERER
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.views import Views
from timeloom.runtime.prompt.instructions.load import load_instructions
from timeloom.testing.samples import sample_drafts

FOLDER = GOLDEN / "prompts"
EDITIONS = pytest.mark.parametrize(
    ("renderer", "folder"),
    [(V1_RENDERER, ""), (V2_RENDERER, "v2/"), (V3_RENDERER, "v3/")],
    ids=["edition 1", "edition 2", "edition 3"],
)

TURN = TurnId("turn_1770603271112_2yz1lp")
SEARCH, PATCH = CallId("18f62649fb3b"), CallId("6a3f1e0d9b21")
MENU, DRAFT_MD = f"fi:{TURN}.user.attachments/menu.pdf", f"fi:{TURN}.files/draft.md"

RESTAURANTS: list[AnyBlock] = [
    TurnStarted(n=1),
    UserPrompt(text="could you find top 3 places to eat here in wuppertal"),
    AttachmentMeta(
        digest=Digest(artifact_path=MENU, mime="application/pdf", size_bytes=137_956),
        summary="2‑page menu, prices & address (Wuppertal)",
    ),
    Attachment(artifact_path=MENU, mime="application/pdf", data=BlobRef("ab" * 32, 137_956)),
    PlanRecorded(
        snapshot=PlanSnapshot(
            plan_id=PlanId("plan_abc"),
            steps=("Search top restaurants", "Cross‑check ratings", "Draft ranked list"),
            statuses=("pending", "pending", "pending"),
        )
    ),
    ToolCall(tool_id="web_tools.web_search", tool_call_id=SEARCH, params='{"queries":["restaurants wuppertal"],"n":5}'),
    SourcesAdded(rows=(SourceRow(sid=1, title="Best of Wuppertal", url="https://eat.example/w"),), tool_call_id=SEARCH),
    ResultDigest(
        tool_call_id=SEARCH, digest=Digest(artifact_path=f"tc:{TURN}.{SEARCH}.result", mime="application/json")
    ),
    ResultContent(
        tool_call_id=SEARCH,
        artifact_path=f"tc:{TURN}.{SEARCH}.result",
        mime="application/json",
        text='[{"sid":1,"title":"Best of Wuppertal","url":"https://eat.example/w"}]',
    ),
    ToolCall(
        tool_id="react.patch",
        tool_call_id=PATCH,
        params=f'{{"path":"{TURN}/files/draft.md","patch":"@@ -1 +1 @@\\n-a\\n+b\\n"}}',
    ),
    ResultDigest(
        tool_call_id=PATCH,
        digest=Digest(
            artifact_path=DRAFT_MD,
            physical_path=f"{TURN}/files/draft.md",
            mime="text/markdown",
            tool_call_id=PATCH,
            edited=True,
        ),
    ),
    ResultContent(
        tool_call_id=PATCH, artifact_path=DRAFT_MD, mime="text/markdown", text="# Places\n\n[TURN x] [[S:1]]\n"
    ),
    Note(tool_call_id=PATCH, text="[D] decided to use Wanderlog + TheFork as primary sources"),
]

TOOLS = (
    CatalogueTool(
        tool_id="web_tools.web_search",
        purpose="Search the web.",
        description="Gives sources with numbers to cite.\nAsk in the language of the pages.",
        params_schema='{"type": "object", "properties": {"queries": {"type": "array", "items": {"type": "string"}}}}',
        effect="pure",
        examples=('{"queries": ["ferry fares Norderney"]}',),
    ),
    CatalogueTool(tool_id="react.read", purpose="Read paths again.", effect="pure"),
)


class StepClock:
    """A clock that advances by one second per reading."""

    def __init__(self) -> None:
        self._us = 1_770_603_271_112_000

    def epoch_us(self) -> int:
        self._us += 1_000_000
        return self._us


class CountingIds:
    """Random bits that are the numbers from one."""

    def __init__(self) -> None:
        self._n = 0

    def bits(self) -> int:
        self._n += 1
        return self._n


def rendered(entries: Sequence[Entry], renderer: Renderer, iteration: int = 5) -> str:
    """The whole user message after these entries."""
    prompt, views = PromptView(renderer=renderer), Views()
    for entry in entries:
        views.add(entry)
        prompt.add(entry, views)
    this = RoundFacts(
        iteration=iteration,
        max_iterations=15,
        now="2026-02-09T02:20:00Z",
        budgets=(AnnouncedBudget("tool calls", 3, 20),),
        prompt_tokens=prompt.tokens,
        window_tokens=200_000,
        cache="4 points, tail written a minute ago",
    )
    tail = (renderer.current_turn(views), renderer.sources(views.sources.pool, views), renderer.announce(this, views))
    text = "\n".join(section for section in tail if section)
    return as_text((*prompt.segments(find_cache_points(views).seqs), RenderedSegment(text)))


def agrees(name: str, text: str) -> None:
    file = FOLDER / name
    if os.environ.get("TIMELOOM_WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@EDITIONS
def test_the_search_for_restaurants(renderer: Renderer, folder: str) -> None:
    drafts = [Draft(TURN, "2026-02-09T02:14:32.676425Z", block) for block in RESTAURANTS]
    entries = [to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)]
    agrees(f"{folder}restaurants.txt", rendered(entries, renderer))


@EDITIONS
def test_the_demonstration(renderer: Renderer, folder: str) -> None:
    steps = demo_steps(StepClock(), CountingIds())
    drafts = [draft for step in steps for draft in step]
    agrees(f"{folder}demo.txt", rendered([to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)], renderer))


@EDITIONS
def test_a_block_of_every_class(renderer: Renderer, folder: str) -> None:
    drafts = [draft for draft in sample_drafts() if draft.block.type_name not in ("react.pruned", "conv.range.summary")]
    entries = [to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)]
    agrees(f"{folder}samples.txt", rendered(entries, renderer, iteration=15))


def test_the_system_text_with_one_action() -> None:
    agrees("system.txt", build_system_text(load_instructions(), TOOLS))


def test_the_system_text_with_several_actions_skills_and_a_bundles_own_words() -> None:
    skills = (CatalogueSkill(ref="reports/pdf", purpose="How to make a PDF report"),)
    agrees(
        "system_several.txt",
        build_system_text(load_instructions(), TOOLS, skills, several_actions=True, bundle_text="You know ferries.\n"),
    )


@pytest.mark.parametrize(
    "renderer", [V1_RENDERER, V2_RENDERER, V3_RENDERER], ids=["edition 1", "edition 2", "edition 3"]
)
def test_the_rendering_is_that_of_its_version(renderer: Renderer) -> None:
    """A rendering that changed without a new number would make replays call honest old logs changed."""
    drafts = sample_drafts()
    nothing_forgotten = [one for one in drafts if not isinstance(one.block, Hidden | Pruned | RangeSummary)]
    pinned = FOLDER.parent / "rendering" / f"{renderer.number}.sha256"
    found = f"{_fingerprint(drafts, renderer)}\n{_fingerprint(nothing_forgotten, renderer)}\n"
    if os.environ.get("TIMELOOM_WRITE_GOLDEN") and renderer is V3_RENDERER:
        pinned.write_text(found)
    assert found == pinned.read_text(), "a rendering changed that logs have recorded"


def _fingerprint(drafts: Sequence[Draft], renderer: Renderer) -> str:
    prompt, views = PromptView(renderer=renderer), Views()
    for seq, draft in enumerate(drafts, 1):
        entry = to_entry(draft, seq)
        views.add(entry)
        prompt.add(entry, views, dict.fromkeys(needed_payloads(entry), b"payload"))
    return prompt.fingerprint()
