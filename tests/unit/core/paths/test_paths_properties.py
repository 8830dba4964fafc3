"""No accepted path leaves its root, and every accepted path reads back as itself."""

import ntpath
import posixpath
import unicodedata
from urllib.parse import quote, unquote

from hypothesis import assume, given
from hypothesis import strategies as st

from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.paths import (
    ArtifactPath,
    AttachmentPath,
    CallTextPath,
    ChannelPath,
    CompletionPath,
    EventAttachmentPath,
    EventPath,
    FileForm,
    FilePath,
    KnowledgePath,
    LatestPlanPath,
    LogicalPath,
    PathError,
    PlanPath,
    RangeSummaryPath,
    RoundTextPath,
    SkillPath,
    ToolPath,
    TurnIndexPath,
    UserPromptPath,
    WorkingSummaryPath,
    parse,
    rewrite_path,
    select_sources,
    to_logical,
    to_physical,
)

ROOT = "/srv/out"
NT_ROOT = "D:\\out"

PIECES = st.sampled_from(
    [
        *("/", "\\", ".", "..", "../", "./", "//", "~", "C:", ":", " ", "\0", "\n", "%", "a", "b.txt", "é", "½", "con"),
        *("%2e", "%2E", "%2f", "%5c", "%00", "%25", "%252e", "%c0%af", "%c0%ae", "%e0%80%ae", "%uff0e", "%u2215"),
        *("／", "＼", "．", "․", "‥", "…", "∕", "⁄", "％", "２", "℀", "\u200d", "\u202e", "\ud800", "\ufeff", "\u3000"),
        *("turn_1", "files", "outputs", "attachments", "user.attachments", "external", "form", "fi:", "turn_1/files/"),
    ]
)
HOSTILE = st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=40))
STARTS = st.sampled_from(
    [
        *("ar:", "tc:", "fi:", "so:", "su:", "ws:", "sk:", "ks:", "ar:turn_1.", "so:sources_pool["),
        *("fi:turn_1.files/", "fi:turn_1.outputs/", "fi:turn_1.user.attachments/", "turn_1/files/"),
        *("fi:turn_1.external.form.attachments/", "fi:turn_1.external.form.attachments/m/"),
        *("ar:turn_1.artifacts.", "ar:turn_1.react.plan.", "tc:turn_1.tool_calls."),
    ]
)
TEXTS = st.one_of(HOSTILE, st.tuples(STARTS, HOSTILE).map("".join))

WORDS = st.text("abcXYZ019_-", min_size=1, max_size=12).filter(lambda word: word[0] not in "_-")
TURNS = WORDS.map(lambda word: TurnId(f"turn_{word}"))
CALLS = WORDS.map(CallId)
PLANS = st.lists(WORDS, min_size=1, max_size=3).map(lambda words: PlanId(":".join(words)))
MESSAGES = WORDS.map(MessageId)
KINDS = st.sampled_from(["followup", "steer", "form", "wizard", "alert", "My_kind-2"])
NUMBERS = st.integers(min_value=1, max_value=999_999_999)
ORDINALS = st.none() | NUMBERS
NAMES = (
    st.text(st.sampled_from("abé漢Ж0 ._-()%:~½+"), min_size=1, max_size=20)
    .map(lambda text: f"n_{text}z")
    .filter(lambda name: "%0" not in name)
)
RELATIVES = st.lists(NAMES, min_size=1, max_size=5).map("/".join)
FILES = st.one_of(
    st.builds(FilePath, TURNS, st.sampled_from(["files", "outputs"]), RELATIVES),
    st.builds(AttachmentPath, TURNS, NAMES),
    st.builds(EventAttachmentPath, TURNS, KINDS, MESSAGES, NAMES),
)
PATHS = st.one_of(
    FILES,
    st.builds(UserPromptPath, TURNS),
    st.builds(CompletionPath, TURNS, ORDINALS),
    st.builds(CallTextPath, TURNS, st.sampled_from(["notes", "note", "approval"]), CALLS),
    st.builds(RoundTextPath, TURNS, st.sampled_from(["thinking", "plan.ack", "model"]), NUMBERS),
    st.builds(PlanPath, TURNS, PLANS),
    st.builds(LatestPlanPath, PLANS),
    st.builds(TurnIndexPath, TURNS),
    st.builds(ArtifactPath, TURNS, NAMES),
    st.builds(EventPath, TURNS, KINDS, MESSAGES),
    st.builds(ToolPath, TURNS, CALLS, st.sampled_from(["call", "code", "notice", "result"])),
    st.builds(select_sources, st.lists(st.integers(min_value=1, max_value=999_999), min_size=1, max_size=40)),
    st.builds(ChannelPath, TURNS, st.from_regex(r"[a-z][a-z0-9_-]{0,31}", fullmatch=True), ORDINALS),
    st.builds(RangeSummaryPath, TURNS, ORDINALS),
    st.builds(WorkingSummaryPath, TURNS, ORDINALS),
    st.builds(SkillPath, RELATIVES),
    st.builds(KnowledgePath, RELATIVES),
)


@given(PATHS)
def test_a_path_reads_back_as_itself(path: LogicalPath) -> None:
    assert parse(str(path)) == path


@given(FILES)
def test_a_file_comes_back_from_its_physical_path(path: FileForm) -> None:
    assert to_logical(str(to_physical(path))) == path


@given(FILES, FILES)
def test_two_files_never_share_a_physical_path(one: FileForm, other: FileForm) -> None:
    assert (to_physical(one) == to_physical(other)) == (one == other)


@given(TEXTS)
def test_any_text_is_a_canonical_path_or_refused(text: str) -> None:
    try:
        path = parse(text)
    except PathError:
        return
    assert parse(str(path)) == path


@given(TEXTS)
def test_no_accepted_path_leaves_its_root(text: str) -> None:
    try:
        path = parse(text)
    except PathError:
        return
    match path:
        case FilePath() | AttachmentPath() | EventAttachmentPath():
            _assert_stays_in(str(to_physical(path)))
        case SkillPath(ref):
            _assert_stays_in(ref)
        case KnowledgePath(rel):
            _assert_stays_in(rel)
        case ArtifactPath(name=name):
            _assert_stays_in(name)
        case _:
            assert "/" not in str(path)
            assert ".." not in str(path)


@given(TEXTS)
def test_no_accepted_physical_text_leaves_its_root(text: str) -> None:
    try:
        path = to_logical(text)
    except PathError:
        return
    assert str(to_physical(path)) == text
    _assert_stays_in(text)


@given(TEXTS)
def test_a_rewritten_path_stays_in_a_turn_and_is_stable(text: str) -> None:
    now = TurnId("turn_999")
    try:
        first = rewrite_path(text, now)
    except PathError:
        return
    _assert_stays_in(str(first.physical))
    again = rewrite_path(str(first.physical), now)
    assert (again.path, again.changed) == (first.path, False)
    assert not first.writable or first.path.turn == now


@given(HOSTILE, st.integers(min_value=1, max_value=4))
def test_encoding_a_refused_name_does_not_get_it_accepted(name: str, times: int) -> None:
    assume("\ud800" not in name and len(name) < 12)
    try:
        parse(f"ks:{name}")
    except PathError as error:
        assume(error.code == "path_escapes_root")
        encoded = "".join(f"%{byte:02x}" for byte in name.encode())
        for _ in range(times - 1):
            encoded = quote(encoded)
        try:
            path = parse(f"ks:{encoded}")
        except PathError:
            return
        raise AssertionError(f"{path} was accepted") from error


def _assert_stays_in(relative: str) -> None:
    """The text, and what careless layers below could make of it, resolves to a place under the root."""
    for form in _forms(relative):
        resolved = posixpath.normpath(posixpath.join(ROOT, form))
        assert resolved.startswith(f"{ROOT}/"), form
        on_windows = ntpath.normpath(ntpath.join(NT_ROOT, form))
        assert on_windows.startswith(f"{NT_ROOT}\\"), form
        assert "\0" not in form
        assert form.count("/") == relative.count("/"), form
        assert "\\" not in form


def _forms(text: str) -> set[str]:
    forms = {text}
    for _ in range(4):
        forms |= {unquote(form) for form in forms}
        forms |= {unicodedata.normalize("NFKC", form) for form in forms}
        forms |= {form.casefold() for form in forms}
        forms |= {"/".join(name.strip() for name in form.split("/")) for form in forms}
    return forms
