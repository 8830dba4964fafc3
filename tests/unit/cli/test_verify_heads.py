"""`timeloom verify --against`: a folder or an export is compared with heads that were kept elsewhere."""

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from timeloom.cli import main
from timeloom.config.sections.storage import StorageSettings
from timeloom.config.settings import Settings
from timeloom.config.signing import open_signer
from timeloom.core.blocks import TurnEnded
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.stores.signing import load_signature_check, load_signer
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.store_contract.fixtures import CONVERSATION, draft, header, thought

OTHER = ConversationId("conv_other")


def write_keys(folder: Path, name: str = "key") -> tuple[Path, Path]:
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with `data`, and with the signed heads and an export of it elsewhere."""
    private, _ = write_keys(tmp_path)
    signer = open_signer(Settings(storage=StorageSettings(signing_key_file=private)))

    async def fill() -> None:
        async with await SqliteStore.open(tmp_path / "data", signer=signer) as store:
            for name in (CONVERSATION, OTHER):
                await store.append(name, 0, [header(), thought("one"), draft(TurnEnded(reason="completed"))])
                await store.append(name, 3, [thought("four"), draft(TurnEnded(reason="completed"))])

    asyncio.run(fill())
    shutil.copytree(tmp_path / "data" / "heads", tmp_path / "heads")
    result = CliRunner().invoke(main, ["export", "--data-dir", str(tmp_path / "data"), "--json"])
    (tmp_path / "export.jsonl").write_text(result.stdout)
    lines = b"".join(path.read_bytes() for path in (tmp_path / "heads").iterdir())
    (tmp_path / "heads.jsonl").write_bytes(lines)
    return tmp_path


def verify(place: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["verify", "--data-dir", str(place / "data"), *arguments])


@pytest.mark.parametrize("heads", ["heads", "heads.jsonl"])
@pytest.mark.parametrize("signed", [True, False])
def test_a_folder_and_its_export_match_their_heads(heads: str, signed: bool, place: Path) -> None:
    options = ["--against", str(place / heads), *(["--public-key", str(place / "key.pub.pem")] if signed else [])]
    assert verify(place, *options).exit_code == 0
    shutil.rmtree(place / "data")
    done = verify(place, *options, str(place / "export.jsonl"))
    assert (done.exit_code, "conversations: 2, entries: 10" in done.output) == (0, True)


def test_an_edited_export_is_named_with_its_entry(place: Path) -> None:
    lines = (place / "export.jsonl").read_text().splitlines()
    timeline = json.loads(lines[0])
    timeline["blocks"][1]["text"] = "another"
    (place / "edited.json").write_text(json.dumps(timeline, indent=2))
    done = verify(place, "--against", str(place / "heads"), str(place / "edited.json"), "--json")
    assert done.exit_code == 1
    finding = json.loads(done.stdout)["findings"][0]
    assert (finding["code"], finding["conversation"], finding["seq"]) == ("chain_broken", CONVERSATION, 2)


def test_a_folder_with_another_history_does_not_match(place: Path) -> None:
    """A delete and a new conversation of the same name, as a forger with the whole folder could make them."""

    async def forge() -> None:
        async with await SqliteStore.open(place / "data") as store:
            await store.delete(CONVERSATION)
            await store.delete(OTHER)
            await store.append(CONVERSATION, 0, [header(), thought("forged"), draft(TurnEnded(reason="completed"))])

    asyncio.run(forge())
    assert verify(place).exit_code == 0
    done = verify(place, "--against", str(place / "heads.jsonl"))
    assert done.exit_code == 1
    assert f"entry 3 of conversation {CONVERSATION}" in done.output and "[chain_broken]" in done.output
    assert f"conversation {OTHER} is missing" in done.output and "[journal_truncated]" in done.output


def test_a_folder_that_is_shorter_than_its_heads_is_named(place: Path) -> None:
    line = json.loads((place / "heads.jsonl").read_text().splitlines()[1])
    (place / "heads.jsonl").write_text(json.dumps(line | {"seq": 9}))
    assert "entries 6 to 9" in verify(place, "--against", str(place / "heads.jsonl")).output


def test_a_finding_that_the_heads_of_the_folder_show_too_is_named_once(place: Path) -> None:
    with sqlite3.connect(place / "data" / "journal.db") as journal:
        journal.execute("DELETE FROM entries WHERE (place & 4294967295) > 4")
        journal.execute("UPDATE conversations SET tail = 4")
    alone, compared = (verify(place, *more).output.splitlines() for more in ((), ("--against", str(place / "heads"))))
    assert len(alone) == len(compared)
    assert sum("[journal_truncated]" in line for line in compared) == 2


def test_heads_without_a_valid_signature_are_named(place: Path) -> None:
    _, other = write_keys(place, "other")
    done = verify(place, "--against", str(place / "heads"), "--public-key", str(other))
    assert done.exit_code == 1
    assert "wrong signature" in done.output and "no head with a signature of this key" in done.output
    lines = [json.loads(line) for line in (place / "heads.jsonl").read_text().splitlines()]
    bare = [{name: line[name] for name in ("conversation", "seq", "ts", "hash")} for line in lines]
    (place / "bare.jsonl").write_text("\n".join(map(json.dumps, bare)))
    done = verify(place, "--against", str(place / "bare.jsonl"), "--public-key", str(place / "key.pub.pem"))
    assert done.output.count("[signature_invalid]") == 2
    lines[0]["hash"], lines[1]["signature"] = "00" * 32, "no hex"
    (place / "forged.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = verify(place, "--against", str(place / "forged.jsonl"), "--public-key", str(place / "key.pub.pem"))
    assert done.output.count("wrong signature") == 2


def test_a_key_alone_is_a_usage_error(place: Path) -> None:
    assert verify(place, "--public-key", str(place / "key.pub.pem")).exit_code == 2


def test_a_file_that_is_no_key_is_said_to_be_none(tmp_path: Path) -> None:
    private, public = write_keys(tmp_path)
    wrong = tmp_path / "wrong.pem"
    key = X25519PrivateKey.generate()
    other = [
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    ]
    for content in (b"", b"no key", private.read_bytes(), public.read_bytes(), *other):
        wrong.write_bytes(content)
        for right, load, fix in (
            (private, load_signer, "openssl genpkey"),
            (public, load_signature_check, "openssl pkey .* -pubout"),
        ):
            if content != right.read_bytes():
                with pytest.raises(CodedError, match=fix):
                    load(wrong)
    with pytest.raises(CodedError, match="cannot be read"):
        load_signer(tmp_path / "none.pem")
    assert open_signer(Settings()) is None


def strip_chains(place: Path) -> None:
    """Remove the hashes of all entries, as for conversations from before chains."""
    with sqlite3.connect(place / "data" / "journal.db") as journal:
        journal.execute("UPDATE entries SET salt = NULL, before = NULL, content = NULL")
        journal.execute("UPDATE conversations SET head = NULL")
    journal.close()


def test_a_folder_whose_hashes_were_removed_is_named(place: Path) -> None:
    strip_chains(place)
    done = verify(place)
    assert (done.exit_code, done.output.count("has lost its hash")) == (1, 4)


def test_an_export_whose_hashes_were_removed_does_not_match_its_heads(place: Path) -> None:
    timeline = json.loads((place / "export.jsonl").read_text().splitlines()[0])
    del timeline["chain"]
    (place / "stripped.json").write_text(json.dumps(timeline))
    done = verify(place, "--against", str(place / "heads"), str(place / "stripped.json"))
    assert (done.exit_code, done.output.count("has lost its hash")) == (1, 2)


def test_a_file_without_heads_is_refused(place: Path) -> None:
    (place / "empty").mkdir()
    for name in ("export.jsonl", "empty"):
        done = verify(place, "--against", str(place / name))
        assert done.exit_code == 2 and "there are no heads" in done.output


def test_heads_that_contradict_each_other_are_named(place: Path) -> None:
    lines = [json.loads(line) for line in (place / "heads.jsonl").read_text().splitlines()]
    forged = [lines[0] | {"hash": "00" * 32}, *lines]
    (place / "heads.jsonl").write_text("\n".join(map(json.dumps, forged)))
    done = verify(place, "--against", str(place / "heads.jsonl"))
    assert done.exit_code == 1 and "different hashes of entry 3" in done.output


def test_a_file_that_is_no_export_is_named(place: Path) -> None:
    done = verify(place, "--against", str(place / "heads"), str(place / "export.jsonl"), str(place / "key.pem"))
    assert done.exit_code == 1 and "key.pem: this is no conv.timeline.v1 object" in done.output


def test_the_error_of_an_unreadable_journal_names_the_salvage(place: Path) -> None:
    journal = place / "data" / "journal.db"
    journal.write_bytes(journal.read_bytes()[:4096] + b"\xaa" * (journal.stat().st_size - 4096))
    done = verify(place)
    assert done.exit_code == 1
    assert "`timeloom verify --salvage OUT` writes what remains to a new folder" in done.output


def test_a_salvage_names_the_entries_that_were_changed(place: Path) -> None:
    """The new folder gets a new chain and passes `verify`, so only the salvage can tell."""
    strip_chains(place)
    done = verify(place, "--salvage", str(place / "out"))
    assert (done.exit_code, done.output.count("has lost its hash; it is copied as it is")) == (0, 4)
    assert CliRunner().invoke(main, ["verify", "--data-dir", str(place / "out")]).exit_code == 0


@pytest.mark.parametrize("size", [0, 4096, 8192, 40_000])
def test_a_journal_that_was_cut_anywhere_is_salvaged(size: int, place: Path) -> None:
    with (place / "data" / "journal.db").open("r+b") as journal:
        journal.truncate(size)
    done = verify(place, "--salvage", str(place / "out"))
    assert (done.exit_code, "Salvaged conversations" in done.output) == (0, True)
