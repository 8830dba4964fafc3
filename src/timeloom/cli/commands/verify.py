"""`timeloom verify`: checks that stored data is complete and that removed content can be read again."""

from pathlib import Path
from typing import Final

import click
import msgspec

from timeloom.cli.command import (
    async_command,
    data_dir_option,
    has_conversations,
    open_store_for_reading,
    select_conversations,
)
from timeloom.cli.sanitize import sanitize
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.store import ChainStart, Store, StoreError, StoreProblem, VerifyReport
from timeloom.runtime.read.check_heads import check_heads, group_heads
from timeloom.runtime.replay.check_retrievable import RetrievalReport, check_retrieval
from timeloom.server.auth.audit_log import verify_audit_logs
from timeloom.stores.signing import load_signature_check
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.salvage import LEFTOVERS, copy_readable_files, salvage
from timeloom.wire.exported_chain import ExportReport, check_export
from timeloom.wire.heads import Head, decode_heads
from timeloom.wire.record import RecordError

MAX_LATE_CHAINS: Final = 20
"""How many conversations with older entries are listed; `--json` lists more."""


@click.command()
@data_dir_option
@click.option("--recovery", is_flag=True, help="Check instead that the model can read removed content again.")
@click.option("--conversation", "only", metavar="ID", help="With --recovery: check only this conversation.")
@click.option(
    "--against",
    type=click.Path(path_type=Path, exists=True),
    metavar="HEADS",
    help="Also compare with a copy of heads: a file of JSON lines, or a folder of such files.",
)
@click.option(
    "--public-key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="With --against: accept only heads with a signature of this Ed25519 key (PEM).",
)
@click.option(
    "--salvage",
    "salvage_to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="OUT",
    help="Write everything readable of a damaged data folder to this new data folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; with --recovery one per conversation.")
@click.argument("exports", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@async_command
async def verify(
    data_dir: Path,
    only: str | None,
    against: Path | None,
    public_key: Path | None,
    exports: tuple[Path, ...],
    salvage_to: Path | None,
    *,
    recovery: bool,
    as_json: bool,
) -> int:
    """Check every stored conversation and payload.

    Reads the whole data folder and changes nothing. If data is damaged or missing, prints the conversation and exits
    with 1; other conversations stay readable. With --recovery, checks instead that the model can read all content its
    next prompt does not show in full, byte for byte, with at most two reads. With EXPORTS, checks these files of
    `timeloom export` instead and needs no data folder.

    \b
    Example: timeloom verify --against heads.jsonl export/conv_.../timeline.json
    """
    if only is not None and not recovery:
        raise click.UsageError("--conversation needs --recovery; without it, the whole folder is checked")
    if public_key is not None and against is None:
        raise click.UsageError("--public-key needs --against; it checks the signatures of those heads")
    if salvage_to is not None:
        return await _salvage(data_dir, salvage_to, as_json=as_json)
    heads, problems = load_heads(against, public_key) if against else ([], [])
    if exports:
        return _check_exports(exports, heads, problems, as_json=as_json)
    async with open_store_for_reading(data_dir) as store:
        if recovery:
            return await _check_recovery(store, only, as_json=as_json)
        found = await store.verify()
        # The folder has heads too, so `found` may have the same problem.
        known = {(one.code, one.conversation, one.seq) for one in found.findings}
        compared = await check_heads(store, heads)
        problems += [one for one in compared if (one.code, one.conversation, one.seq) not in known]
    problems += _check_audit_logs(data_dir)
    found = msgspec.structs.replace(found, findings=(*problems, *found.findings))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        print_verified(found)
    return 1 if found.findings else 0


async def _salvage(data_dir: Path, out: Path, *, as_json: bool) -> int:
    if not has_conversations(data_dir):
        raise click.BadParameter("the folder has neither a journal nor payloads", param_hint="--data-dir")
    report = await salvage(data_dir, out)
    report.notes += await _find_broken_chains(data_dir)
    # The audit logs must hold in the new folder; damaged ones are kept beside it.
    damaged = bool(_check_audit_logs(data_dir))
    copy_readable_files(data_dir / "workspaces", out / "workspaces")
    copy_readable_files(data_dir / "audit", out / (f"{LEFTOVERS}/audit" if damaged else "audit"))
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
        return 0
    for note in report.notes:
        click.echo(sanitize(note))
    lost = f"lost entries: {report.lost_entries}, entries without payload: {report.lost_payloads}"
    left = f", unreferenced payloads in {LEFTOVERS}/: {report.leftovers}" if report.leftovers else ""
    click.echo(f"Salvaged conversations: {report.conversations}, entries: {report.entries}; {lost}{left}.")
    return 0


async def _find_broken_chains(data_dir: Path) -> list[str]:
    """Return a note for each entry that is readable but not the one that was stored: its new chain hides that."""
    try:
        async with await SqliteStore.open_read_only(data_dir) as store:
            findings = (await store.verify()).findings
    except StoreError:
        return []  # Too little is readable to check it; the notes of the salvage say what is lost.
    return [f"{one.message}; it is copied as it is" for one in findings if one.code == "chain_broken"]


def _check_audit_logs(data_dir: Path) -> list[StoreProblem]:
    _, problems = verify_audit_logs(data_dir / "audit")
    return [StoreProblem(problem.code, problem.message) for problem in problems]


def load_heads(path: Path, public_key: Path | None) -> tuple[list[Head], list[StoreProblem]]:
    """Return the heads of a file or folder, and a problem for each conversation without a valid signature."""
    files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    heads = [head for file in files for head in decode_heads(file.read_bytes().splitlines())]
    if not heads:
        raise click.BadParameter(
            f"there are no heads in {click.format_filename(path)}; name a copy of the folder `heads` of a data folder, "
            "or of a file in it",
            param_hint="--against",
        )
    if public_key is None:
        return heads, _find_contradictions(heads)
    is_signed = load_signature_check(public_key)
    problems = [
        StoreProblem(
            "signature_invalid",
            f"the head of conversation {head.conversation} at entry {head.seq} has a wrong signature",
            head.conversation,
            head.seq,
        )
        for head in heads
        if head.signature and not is_signed(head)
    ]
    # A head without a signature proves nothing; `timeloom fork` writes such heads.
    signed = [head for head in heads if is_signed(head)]
    for conversation in {head.conversation for head in heads} - {head.conversation for head in signed}:
        message = f"conversation {conversation} has no head with a signature of this key"
        problems.append(StoreProblem("signature_invalid", message, conversation))
    return signed, problems + _find_contradictions(signed)


def _find_contradictions(heads: list[Head]) -> list[StoreProblem]:
    """Return a problem for each entry with two hashes: the journal was rewritten between two copies of its heads."""
    hashes: dict[tuple[ConversationId, int], set[str]] = {}
    for head in heads:
        hashes.setdefault((head.conversation, head.seq), set()).add(head.hash)
    return [
        StoreProblem(
            "chain_broken",
            f"the heads have different hashes of entry {seq} of conversation {conversation}: the journal was rewritten",
            conversation,
            seq,
        )
        for (conversation, seq), found in hashes.items()
        if len(found) > 1
    ]


def _check_exports(exports: tuple[Path, ...], heads: list[Head], problems: list[StoreProblem], *, as_json: bool) -> int:
    """Check exported timelines, one JSON object per line or per file, without a data folder."""
    hashes = {
        conversation: {seq: head.hash for seq, head in by_seq.items()}
        for conversation, by_seq in group_heads(heads).items()
    }
    reports = [_check_export(path, each, hashes) for path in exports for each in _split_export(path.read_bytes())]
    found = [
        StoreProblem("chain_broken", one.message, each.conversation, one.seq)
        for each in reports
        for one in each.problems
    ]
    report = VerifyReport(
        conversations=len(reports),
        entries=sum(each.entries for each in reports),
        blobs=0,
        findings=(*problems, *found),
        erased=sum(each.erased for each in reports),
        late_chains=tuple(
            ChainStart(each.conversation, each.chained_from) for each in reports if each.chained_from != 1
        ),
    )
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        print_verified(report)
    return 1 if report.findings else 0


def _check_export(path: Path, data: bytes, heads: dict[ConversationId, dict[int, str]]) -> ExportReport:
    try:
        return check_export(data, heads)
    except RecordError as error:
        raise RecordError(f"{click.format_filename(path.name)}: {error}") from error


def _split_export(data: bytes) -> list[bytes]:
    """Return the timelines of a file: `timeloom export --json` prints one per line."""
    lines = [line for line in data.splitlines() if line.strip()]
    return lines if all(line.startswith(b"{") and line.endswith(b"}") for line in lines) else [data]


def print_verified(found: VerifyReport) -> None:
    """Print each finding with its place, then the counts and the verdict."""
    for finding in found.findings:
        click.echo(_format_finding(finding))
    for late in found.late_chains[:MAX_LATE_CHAINS]:
        begins = f"its hash chain begins at entry {late.seq}" if late.seq else "it has no hash chain yet"
        click.echo(f"{late.conversation}: {begins}; older entries were stored without one")
    if len(found.late_chains) > MAX_LATE_CHAINS:
        click.echo(f"… and {len(found.late_chains) - MAX_LATE_CHAINS} more conversations with older entries")
    counts = f"conversations: {found.conversations}, entries: {found.entries}, payloads: {found.blobs}"
    counts += f", erased entries: {found.erased}" if found.erased else ""
    counts += f", unreferenced payloads: {found.orphans}" if found.orphans else ""
    click.echo(f"Checked {counts}; {_verdict(len(found.findings))}.")


async def _check_recovery(store: Store, only: str | None, *, as_json: bool) -> int:
    conversations = entries = lost = 0
    async for conversation in select_conversations(store, only):
        found = await _check_conversation(store, conversation)
        conversations, entries, lost = conversations + 1, entries + found.entries, lost + len(found.lost)
        if as_json:
            click.echo(msgspec.json.encode(found).decode())
        else:
            _print_recovery(found)
    if not as_json:
        verdict = f"lost: {lost}" if lost else "nothing is lost"
        click.echo(f"Checked conversations: {conversations}, entries: {entries}; {verdict}.")
    return 1 if lost else 0


async def _check_conversation(store: Store, conversation: ConversationId) -> RetrievalReport:
    """Check one conversation; one that cannot be read becomes a single finding, so that the check continues."""
    try:
        return await check_retrieval(store, conversation)
    except CodedError as error:
        finding = StoreProblem(error.code, str(error), conversation)
        return RetrievalReport(conversation=conversation, entries=0, lost=(finding,))


def _print_recovery(found: RetrievalReport) -> None:
    for finding in found.lost:
        click.echo(sanitize(_format_finding(finding)))
    counts = f"in sight: {found.in_sight}, in one read: {found.one_read}, in two: {found.two_reads}"
    erased = f", erased: {found.erased}" if found.erased else ""
    click.echo(f"{found.conversation}: {counts}, never shown: {found.silent}{erased}, lost: {len(found.lost)}")


def _format_finding(finding: StoreProblem) -> str:
    place = "" if finding.conversation and finding.conversation in finding.message else f"{_format_place(finding)}: "
    return f"{place}{finding.message} [{finding.code}]"


def _format_place(finding: StoreProblem) -> str:
    if finding.conversation is None:
        return "store"
    return finding.conversation if finding.seq is None else f"{finding.conversation} entry {finding.seq}"


def _verdict(count: int) -> str:
    return f"findings: {count}" if count else "all whole"
