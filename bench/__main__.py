"""Runs the benchmarks: `python -m bench [--data FOLDER] [--quick] [--only SUBJECT] [--json FILE]`."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from bench import peer, synthetic, trace_files
from bench.agent import measure_agent
from bench.appends import measure_concurrent, measure_dialogues, measure_long, measure_traces
from bench.chain import measure_chain
from bench.context.framing import measure_framing
from bench.context.generated import measure_generated
from bench.context.measure import measure_context
from bench.deltas import measure_deltas
from bench.folds import measure_folds
from bench.imports import measure_imports
from bench.loads import measure_loads
from bench.local_model import measure_local_model
from bench.memory import measure_memory
from bench.page import measure_page
from bench.parsers import measure_parsers
from bench.peers import measure_peers
from bench.report import BenchSection, as_text, make_report, targets_table
from bench.rounds import measure_rounds
from bench.sandbox import measure_sandbox
from bench.serving.measure import measure_server
from bench.settings import FULL, QUICK, TINY, BenchRun
from bench.traces import Trace

RESULTS: Final = Path(__file__).with_name("results")

MEASURES: Final[dict[str, Callable[[BenchRun], BenchSection]]] = {
    "traces": measure_traces,
    "long": measure_long,
    "chain": measure_chain,
    "concurrent": measure_concurrent,
    "dialogues": measure_dialogues,
    "loads": measure_loads,
    "folds": measure_folds,
    "parsers": measure_parsers,
    "imports": measure_imports,
    "agent": measure_agent,
    "local_model": measure_local_model,
    "rounds": measure_rounds,
    "memory": measure_memory,
    "deltas": measure_deltas,
    "peers": measure_peers,
    "context": measure_context,
    "generated": measure_generated,
    "framing": measure_framing,
    "sandbox": measure_sandbox,
    "server": measure_server,
    "page": measure_page,
}


def main() -> None:
    """Print a table for each subject as soon as it is measured, then write all of them as JSON."""
    options = _options()
    sizes = TINY if options.tiny else QUICK if options.quick else FULL
    sessions, dialogues, data = _traces(options.data, sizes.synthetic_steps, sizes.dialogues)
    print(f"Data: {data}\n")
    run = BenchRun(
        sizes=sizes,
        sessions=tuple(sessions),
        dialogues=tuple(dialogues),
        work=options.work,
        peer=None if options.alone or (options.offline and not peer.is_ready()) else _peer(),
    )
    sections: list[BenchSection] = []
    for name in options.only or MEASURES:
        section = MEASURES[name](run)
        sections.append(section)
        for table in section.tables:
            print(as_text(table), flush=True)
    report = make_report(data, sections)
    print(as_text(targets_table(report.bars)))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


class _Options(argparse.Namespace):
    data: Path | None
    quick: bool
    tiny: bool
    alone: bool
    offline: bool
    only: list[str]
    json: Path
    work: Path


def _options() -> _Options:
    parser = argparse.ArgumentParser(prog="bench", description="timeloom's benchmarks, beside other runtimes")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="recorded sessions; default: synthetic ones")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="smaller sizes, a few minutes")
    size.add_argument("--tiny", action="store_true", help="smallest sizes, only to check that everything runs")
    parser.add_argument("--alone", action="store_true", help="omit other runtimes and their environment")
    parser.add_argument("--offline", action="store_true", help="download nothing; use other runtimes only if installed")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=[], help="run only these subjects")
    parser.add_argument(
        "--json", type=Path, default=RESULTS / "bench.json", metavar="FILE", help="file for the JSON report"
    )
    parser.add_argument("--work", type=Path, default=RESULTS, metavar="FOLDER", help="folder on the disk to measure")
    return parser.parse_args(namespace=_Options())


def _traces(folder: Path | None, steps: int, dialogues: int) -> tuple[list[Trace], list[Trace], str]:
    """Return the recorded traces if there are any, otherwise synthetic ones, and a sentence that says which."""
    sessions = trace_files.read_sessions(folder) if folder else []
    short = trace_files.read_dialogues(folder) if folder else []
    said: list[str] = []
    if not sessions:
        said.append(f"sessions are SYNTHETIC ({_missing(folder, trace_files.SESSIONS)})")
        sessions = [synthetic.session("synthetic_session", steps)]
    else:
        said.append(f"{len(sessions)} recorded sessions")
    if not short:
        said.append(f"dialogues are SYNTHETIC ({_missing(folder, trace_files.DIALOGUES)})")
        short = synthetic.dialogues(dialogues)
    else:
        said.append(f"{len(short)} recorded dialogues")
    return sessions, short, "; ".join(said)


def _missing(folder: Path | None, name: str) -> str:
    return f"the folder has no {name}" if folder else f"no --data FOLDER with {name}"


def _peer() -> Path | None:
    try:
        return peer.prepare()
    except (peer.PeerError, OSError) as error:
        print(f"Omitting other runtimes: their environment could not be created ({error})\n", file=sys.stderr)
        return None


if __name__ == "__main__":
    main()
