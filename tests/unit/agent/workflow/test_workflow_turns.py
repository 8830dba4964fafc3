"""A workflow runs the actual turns of a conversation: answers, faults, interrupts and later messages."""

import asyncio
from pathlib import Path
from typing import ClassVar

import msgspec

from tests.harness.turn import run
from tests.harness.workflow import WorkflowHarness
from timeloom.agent.answer import Answer
from timeloom.agent.workflow import BaseWorkflow, Payload
from timeloom.core.blocks import ExternalEvent, Feedback, ModelCalled, RoundStarted, ToolCall
from timeloom.runtime.hub.state import IncomingMessage
from timeloom.testing import call, says


class Forwarding(BaseWorkflow):
    """The default workflow."""


class Recording(BaseWorkflow):
    """Keeps the payloads of its calls, and waits at a gate before it answers."""

    payloads: ClassVar[list[Payload]]
    begun: ClassVar[asyncio.Event]
    gate: ClassVar[asyncio.Event]

    @classmethod
    def reset(cls) -> None:
        cls.payloads, cls.begun, cls.gate = [], asyncio.Event(), asyncio.Event()

    async def run(self, payload: Payload) -> Answer[str] | str | None:
        self.payloads.append(payload)
        self.begun.set()
        await self.gate.wait()
        return f"{payload.kind}: {payload.message}"


def test_the_default_workflow_runs_the_agent_on_the_turn(tmp_path: Path) -> None:
    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Forwarding, call("t.look"), says("Done."))
        async with stage.hub() as hub:
            name = await stage.say(hub)
        assert await stage.answers(name) == ["Done."]
        assert (await stage.end(name)).reason == "completed"
        assert len([one for one in await stage.blocks(name) if isinstance(one, ToolCall)]) == 1

    run(check)


def test_text_without_the_agent_is_the_answer(tmp_path: Path) -> None:
    class Hello(BaseWorkflow):
        async def run(self, payload: Payload) -> str:
            return f"You said {payload.message}, {payload.user}."

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Hello)
        async with stage.hub() as hub:
            name = await stage.say(hub, "hi")
            await hub.send_message(name, "again")
            await stage.settle(hub, name)
        assert await stage.answers(name) == ["You said hi, u.", "You said again, u."]
        assert (await stage.end(name)).reason == "completed"
        assert not [one for one in await stage.blocks(name) if isinstance(one, RoundStarted | ModelCalled)]

    run(check)


def test_the_agent_sees_the_answers_that_a_workflow_gave(tmp_path: Path) -> None:
    class Sometimes(BaseWorkflow):
        async def run(self, payload: Payload) -> Answer[str] | str | None:
            if payload.message == "hi":
                return "Welcome to the shop."
            return await super().run(payload)

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Sometimes, says("ok"))
        async with stage.hub() as hub:
            name = await stage.say(hub, "hi")
            await hub.send_message(name, "what did you say?")
            await stage.settle(hub, name)
        assert await stage.answers(name) == ["Welcome to the shop.", "ok"]
        assert "Welcome to the shop." in stage.recorder.prompts[0]

    run(check)


def test_a_workflow_can_replace_the_answer_of_the_agent(tmp_path: Path) -> None:
    class Signed(BaseWorkflow):
        async def run(self, payload: Payload) -> str:
            react = await self.build_react()
            answer = await react.run(payload)
            assert (answer.reason, answer.text) == ("completed", "Done.")
            return f"{answer.text} — the shop"

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Signed, says("Done."))
        async with stage.hub() as hub:
            name = await stage.say(hub)
        assert await stage.answers(name) == ["Done.", "Done. — the shop"]

    run(check)


def test_a_note_asks_the_agent_for_more_and_counts_once(tmp_path: Path) -> None:
    class Checked(BaseWorkflow):
        async def run(self, payload: Payload) -> Answer[str]:
            react = await self.build_react()
            answer = await react.run(payload)
            for _ in range(3):
                if "42" not in answer.text:
                    answer = await react.run(payload, note="State the number.")
            return answer

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Checked, says("Soon."), says("No."))
        async with stage.hub() as hub:
            name = await stage.say(hub)
        assert await stage.answers(name) == ["Soon.", "No."]
        assert "State the number." in stage.recorder.prompts[1]
        notes = [one for one in await stage.blocks(name) if isinstance(one, ExternalEvent)]
        assert [(one.kind, one.text) for one in notes] == [("workflow", "State the number.")]
        assert (await stage.end(name)).reason == "completed"

    run(check)


def test_an_error_ends_the_turn_with_file_and_line(tmp_path: Path) -> None:
    class Broken(BaseWorkflow):
        async def run(self, payload: Payload) -> str:
            raise ValueError("no such order in /home/ann/orders.csv")

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Broken)
        async with stage.hub() as hub:
            name = await stage.say(hub)
            assert (await hub.status(name)).state == "idle"
        end = await stage.end(name)
        line = Broken.run.__code__.co_firstlineno + 1
        assert end.reason == "runtime_error"
        assert f"workflow_failed: run of the bundle shop failed at {Path(__file__).name}, line {line}: " in end.text
        assert "ValueError: no such order" in end.text
        assert "/home/ann" not in end.text
        assert [one.line for one in stage.faults] == [line]

    run(check)


def test_wrong_values_of_run_are_faults(tmp_path: Path) -> None:
    class Returns(BaseWorkflow):
        value: ClassVar[object] = None

        async def run(self, payload: Payload) -> str | None:
            return self.value  # pyright: ignore[reportReturnType]

    async def check(value: object, reason: str) -> None:
        Returns.value = value
        stage = WorkflowHarness(tmp_path, Returns)
        async with stage.hub() as hub:
            name = await stage.say(hub)
        assert reason in (await stage.end(name)).text

    async def check_all() -> None:
        await check(7, "must return text, an Answer or None, got int")
        await check("  ", "returned an empty text")
        await check(None, "returned nothing and did not run the agent")

    run(check_all)


def test_the_end_of_the_process_is_refused(tmp_path: Path) -> None:
    class Exits(BaseWorkflow):
        async def run(self, payload: Payload) -> str:
            raise SystemExit(3)

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Exits)
        async with stage.hub() as hub:
            name = await stage.say(hub)
        assert "tried to end the process" in (await stage.end(name)).text

    run(check)


def test_a_workflow_that_idles_too_long_ends_the_turn(tmp_path: Path) -> None:
    class Hangs(BaseWorkflow):
        idle_s = 0.01

        async def run(self, payload: Payload) -> str:
            await asyncio.Event().wait()
            return "never"

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Hangs)
        async with stage.hub() as hub:
            name = await stage.say(hub)
        line = Hangs.run.__code__.co_firstlineno + 1
        assert f"line {line}: it ran longer than 0.01 seconds" in (await stage.end(name)).text

    run(check)


def test_a_cancellation_stops_a_working_workflow(tmp_path: Path) -> None:
    async def check() -> None:
        Recording.reset()
        stage = WorkflowHarness(tmp_path, Recording)
        async with stage.hub() as hub:
            receipt = await hub.start_conversation(stage.header, "hello")
            await Recording.begun.wait()
            await hub.send_event(receipt.conversation_id, IncomingMessage(kind="cancel", by="ann"))
            await stage.settle(hub, receipt.conversation_id)
        end = await stage.end(receipt.conversation_id)
        assert (end.reason, end.text) == ("cancelled", "cancelled by ann")
        assert not stage.faults

    run(check)


def test_a_steer_calls_a_working_workflow_again(tmp_path: Path) -> None:
    async def check() -> None:
        Recording.reset()
        stage = WorkflowHarness(tmp_path, Recording)
        async with stage.hub() as hub:
            receipt = await hub.start_conversation(stage.header, "hello")
            await Recording.begun.wait()
            Recording.begun.clear()
            await hub.send_event(receipt.conversation_id, IncomingMessage(kind="steer", text="in French"))
            await Recording.begun.wait()
            Recording.gate.set()
            await stage.settle(hub, receipt.conversation_id)
        assert await stage.answers(receipt.conversation_id) == ["steer: in French"]
        first, second = Recording.payloads
        assert (first.cause, first.resumed, first.messages) == ("opened", False, ("hello",))
        assert (second.cause, second.resumed, second.messages) == ("steer", True, ("hello", "in French"))

    run(check)


def test_a_message_that_arrives_meanwhile_is_handled_in_the_same_turn(tmp_path: Path) -> None:
    async def check() -> None:
        Recording.reset()
        stage = WorkflowHarness(tmp_path, Recording)
        async with stage.hub() as hub:
            receipt = await hub.start_conversation(stage.header, "hello")
            await Recording.begun.wait()
            assert (await hub.send_message(receipt.conversation_id, "and?")).status == "followup"
            Recording.gate.set()
            await stage.settle(hub, receipt.conversation_id)
        assert await stage.answers(receipt.conversation_id) == ["prompt: hello", "followup: and?"]
        assert [one.cause for one in Recording.payloads] == ["opened", "message"]

    run(check)


def test_a_message_after_the_agents_answer_is_handled_before_the_end(tmp_path: Path) -> None:
    class Slow(Recording):
        async def run(self, payload: Payload) -> Answer[str]:
            react = await self.build_react()
            answer = await react.run(payload)
            self.payloads.append(payload)
            self.begun.set()
            await self.gate.wait()
            return answer

    async def check() -> None:
        Slow.reset()
        stage = WorkflowHarness(tmp_path, Slow, says("One."), says("Two."))
        async with stage.hub() as hub:
            receipt = await hub.start_conversation(stage.header, "hello")
            await Slow.begun.wait()
            await hub.send_message(receipt.conversation_id, "and?")
            Slow.gate.set()
            await stage.settle(hub, receipt.conversation_id)
        assert await stage.answers(receipt.conversation_id) == ["One.", "Two."]

    run(check)


def test_the_end_of_the_answer_waits_for_the_workflow(tmp_path: Path) -> None:
    class Rated(BaseWorkflow):
        async def run(self, payload: Payload) -> Answer[str]:
            react = await self.build_react()
            answer = await react.run(payload)
            await self.feedback("ok", text="checked", confidence=0.9)
            return answer

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Rated, says("Done."))
        async with stage.hub() as hub:
            name = await stage.say(hub)
        blocks = await stage.blocks(name)
        (given,) = [one for one in blocks if isinstance(one, Feedback)]
        assert (given.origin, given.reaction, given.confidence, given.author) == ("machine", "ok", 0.9, "bundle shop")
        assert blocks.index(given) < blocks.index(await stage.end(name))

    run(check)


class Verdict(msgspec.Struct):
    ok: bool


def test_text_has_to_fit_the_output_schema_of_the_turn(tmp_path: Path) -> None:
    class Says(BaseWorkflow):
        async def run(self, payload: Payload) -> str:
            return payload.message

    async def check() -> None:
        stage = WorkflowHarness(tmp_path, Says)
        schema = msgspec.json.encode(msgspec.json.schema(Verdict)["$defs"]["Verdict"]).decode()
        async with stage.hub() as hub:
            name = await stage.say(hub, "hello")
            for message in ('{"ok": true}', "yes"):
                await hub.send_message(name, message, output=schema)
                await stage.settle(hub, name)
        assert await stage.answers(name) == ["hello", '{"ok": true}']
        assert "does not fit the output schema" in (await stage.end(name)).text

    run(check)
