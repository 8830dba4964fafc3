"""The bundle on a scripted model, which needs no key: `python -m pytest docs`."""

import asyncio
from pathlib import Path

from timeloom import Agent
from timeloom.core.blocks import ResultContent
from timeloom.testing import ScriptedModel, call, says

FOLDER = Path(__file__).parent

RIGHT = "It sounds for three minutes.\n\n> The siren stops after 180 seconds to save the battery.\n>\n> `ks:alarms.md`"


def docs_agent(*replies: str) -> Agent[str]:
    """Return the agent of the bundle with these replies of the model."""
    return Agent.from_bundle(FOLDER, ScriptedModel(replies))


async def results(agent: Agent[str], conversation: str) -> list[str]:
    """Return the texts that the tools of a conversation returned."""
    entries = [entry.block async for entry in agent.timeline(conversation)]
    return [str(block.text) for block in entries if isinstance(block, ResultContent)]


def test_it_searches_reads_and_quotes() -> None:
    search = call("react.search_knowledge", query="How long does the siren sound?", limit=2)
    agent = docs_agent(search, call("react.read", paths=["ks:alarms.md"]), says(RIGHT))
    answer = agent.run_sync("How long does the siren sound?")
    assert answer.text == RIGHT
    hits, document = asyncio.run(results(agent, answer.conversation))
    assert '"path":"ks:alarms.md","title":"Alarms: Flood"' in hits
    assert document.startswith("# Alarms")


def test_the_words_of_a_question_find_their_section() -> None:
    queries = ["replacing batteries", "which Wi-Fi networks", "remove all settings", "xylophone"]
    agent = docs_agent(*(call("react.search_knowledge", query=query, limit=1) for query in queries), says("Found."))
    found = asyncio.run(results(agent, agent.run_sync("Find it.").conversation))
    titles = ["Batteries: Replace them", "Installation: Join a network", "Reset"]
    assert [title for title, hits in zip(titles, found, strict=False) if f'"title":"{title}"' in hits] == titles
    assert found[3] == "[]"


def test_a_wrong_quote_goes_back_to_the_agent() -> None:
    wrong = RIGHT.replace("180", "300")
    assert docs_agent(says(wrong), says(RIGHT)).run_sync("How long does the siren sound?").text == RIGHT


def test_a_path_outside_of_the_documents_has_no_content() -> None:
    agent = docs_agent(call("react.read", paths=["ks:../bundle.toml", "ks:bundle.toml"]), says("Nothing."))
    assert asyncio.run(results(agent, agent.run_sync("Read the settings.").conversation)) == []


def test_the_contents_need_no_model() -> None:
    documents = ["ks:alarms.md", "ks:batteries.md", "ks:installation.md", "ks:reset.md"]
    assert docs_agent().run_sync("contents").text == "\n".join(f"- `{path}`" for path in documents)
