"""Scores the demo model on sets of requests: `python -m bench.demo.score FILE… [--only ID…] [--failed]`."""

import argparse
import asyncio
import tempfile
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench.demo.conversation import DemoOutcome, run_request
from bench.demo.judge import find_failures
from bench.demo.requests import DemoRequest, read_requests
from timeloom.app import open_tools
from timeloom.config.settings import Settings
from timeloom.core.render.editions import EDITIONS
from timeloom.ports.model import Model
from timeloom_local.model import LocalModel


class JudgedRequest(msgspec.Struct, frozen=True):
    """A request with its outcome and the checks that failed; it is sensible if none failed."""

    request: DemoRequest
    outcome: DemoOutcome
    failures: list[str]


async def judge_requests(
    model: Model, requests: Sequence[DemoRequest], edition: int = Settings().context.edition
) -> AsyncGenerator[JudgedRequest]:
    """Run the requests one after another with the tools that `timeloom serve` has, and yield each with its verdict."""
    settings = Settings()
    settings = replace(settings, context=replace(settings.context, edition=edition))
    async with open_tools(settings) as registry:
        for request in requests:
            with tempfile.TemporaryDirectory(prefix="timeloom-bench-") as folder:
                outcome = await run_request(model, request, registry, Path(folder), edition)
            yield JudgedRequest(request, outcome, find_failures(request, outcome))


def format_transcript(judged: JudgedRequest) -> str:
    """Return the conversation of a request with its verdict as text."""
    request, outcome = judged.request, judged.outcome
    lines = [f"=== {request.id}: {'FAILED' if judged.failures else 'sensible'}"]
    lines += [f"  file {name}: {text!r}" for name, text in request.files.items()]
    for asked, said in outcome.earlier:
        lines += [f"  user: {asked}", f"  demo: {_indent(said)}"]
    lines += [f"  attached {name}: {text[:200]!r}" for name, text in request.attachments.items()]
    lines += [f"  user: {_indent(request.request)}"]
    lines += [
        f"  call: {call.tool_id} {call.params[:400]}\n        {_indent(call.status[:400])}" for call in outcome.calls
    ]
    lines += [f"  demo: {_indent(outcome.answer)}"]
    lines += [f"  file {name}: {text!r}" for name, text in outcome.files.items() if text != request.files.get(name)]
    lines += [f"  wanted: {request.sensible}", *(f"  not met: {failure}" for failure in judged.failures)]
    return "\n".join(lines)


def _indent(text: str) -> str:
    return text.replace("\n", "\n        ")


async def _score(files: Sequence[Path], only: Sequence[str], edition: int, *, failed_only: bool) -> None:
    model = LocalModel()
    try:
        for file in files:
            requests = [request for request in read_requests(file) if not only or str(request.id) in only]
            sensible = 0
            async for judged in judge_requests(model, requests, edition):
                sensible += not judged.failures
                if judged.failures or not failed_only:
                    print(format_transcript(judged), end="\n\n", flush=True)
            share = f", {sensible / len(requests):.0%}" if requests else ""
            print(f"{file.name}: {sensible} of {len(requests)} sensible{share}")
    finally:
        await model.close()


def main() -> None:
    """Print the transcripts of the sets and, after each set, its score."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo.score", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a set of requests, in YAML")
    parser.add_argument("--only", nargs="+", default=(), metavar="ID", help="run only these requests")
    parser.add_argument("--failed", action="store_true", help="print only the transcripts of failed requests")
    parser.add_argument(
        "--edition", type=int, choices=EDITIONS, default=Settings().context.edition, help="edition of the prompts"
    )
    options = parser.parse_args()
    asyncio.run(_score(options.files, options.only, options.edition, failed_only=options.failed))


if __name__ == "__main__":
    main()
