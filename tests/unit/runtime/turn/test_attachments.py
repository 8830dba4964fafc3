"""Attachments become sources when they are attached."""

from msgspec.structs import replace

from timeloom.core.blocks import Attachment, AttachmentMeta, Digest, Hosting
from timeloom.core.ids import TurnId
from timeloom.core.paths import AttachmentPath
from timeloom.core.payload import ref_of
from timeloom.core.sources import SourcesPool
from timeloom.runtime.turn.attachments import IncomingFile, host_attachments, to_attachment_blocks, to_source_blocks

TURN = TurnId("turn_1770603272000_000002")
PLACE = AttachmentPath(TURN, "b.txt")


def attached(name: str, mime: str = "text/plain", text: str = "one") -> tuple[AttachmentMeta, Attachment]:
    path = f"fi:{TURN}.user.attachments/{name}"
    digest = Digest(artifact_path=path, physical_path=f"{TURN}/attachments/{name}", mime=mime, size_bytes=3)
    return AttachmentMeta(digest=digest), Attachment(artifact_path=path, mime=mime, text=text)


def test_the_content_of_an_attachment_has_its_digest_and_says_where_it_is_hosted() -> None:
    meta, content = attached("a.txt")
    unchanged, hosted = host_attachments((meta, content), lambda path: Hosting(rn=f"rn of {path}"))
    assert (unchanged, hosted) == (
        meta,
        replace(content, digest=meta.digest, hosting=Hosting(rn=f"rn of {content.artifact_path}")),
    )
    (_, made) = to_attachment_blocks([IncomingFile(name="b.txt", mime="text/plain", text="b")], lambda _: PLACE)
    assert isinstance(made, Attachment)
    assert made.digest == Digest(
        artifact_path=str(PLACE), physical_path=f"{TURN}/attachments/b.txt", mime="text/plain", size_bytes=1
    )


def test_an_attached_text_is_a_source_with_its_name_and_its_beginning() -> None:
    (added,) = to_source_blocks(attached("a b.txt", text="x" * 5_000), SourcesPool())
    (row,) = added.rows
    assert (row.sid, row.source_type, row.title) == (1, "attachment", "a b.txt")
    assert (row.artifact_path, row.physical_path) == (
        f"fi:{TURN}.user.attachments/a b.txt",
        f"{TURN}/attachments/a b.txt",
    )
    assert 0 < len(row.text) < 5_000
    assert not row.content


def test_what_may_not_enter_the_pool_is_left_out() -> None:
    assert to_source_blocks((), SourcesPool()) == ()
    assert to_source_blocks(attached("a.zip", "application/zip"), SourcesPool()) == ()
    nowhere = AttachmentMeta(digest=Digest(artifact_path=f"fi:{TURN}.user.attachments/a.txt", mime="text/plain"))
    assert to_source_blocks((nowhere,), SourcesPool()) == ()


def test_a_text_that_is_stored_apart_is_a_source_without_a_beginning() -> None:
    meta, content = attached("a.txt")
    stored = Attachment(artifact_path=content.artifact_path, mime="text/plain", text=ref_of(b"one"))
    (added,) = to_source_blocks((meta, stored), SourcesPool())
    assert added.rows[0].text == ""


def test_sources_are_numbered_after_those_there_are() -> None:
    pool = SourcesPool()
    (first,) = to_source_blocks(attached("a.txt"), pool)
    pool.add_rows(first.rows)
    (second,) = to_source_blocks((*attached("a.txt"), *attached("b.txt")), pool)
    assert [(row.sid, row.title) for row in second.rows] == [(2, "b.txt")]
