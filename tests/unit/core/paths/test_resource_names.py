"""Resource names: one way to write each, and nothing else is one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.codes import CODES
from timeloom.core.ids import ConversationId, MessageId, TurnId
from timeloom.core.paths import PathError, parse
from timeloom.core.paths.forms import AttachmentPath, EventAttachmentPath, FileForm, FilePath
from timeloom.core.paths.resource import MAX_RESOURCE_CHARS, ResourceName, parse_resource

TURN = TurnId("turn_1")


def named(path: FileForm, user: str = "ann") -> ResourceName:
    return ResourceName(tenant="home", project="demo", user=user, conversation=ConversationId("conv_1"), path=path)


def test_a_name_says_whose_file_it_is_and_where_it_lies() -> None:
    assert str(named(FilePath(TURN, "outputs", "export/report.pdf"))) == (
        "ef:home:demo:chatbot:file:ann:conv_1:turn_1:artifact:outputs/export/report.pdf"
    )
    assert str(named(AttachmentPath(TURN, "ab: c.txt"))) == (
        "ef:home:demo:chatbot:attachment:ann:conv_1:turn_1:user:ab: c.txt"
    )
    assert str(named(EventAttachmentPath(TURN, "form", MessageId("m1"), "a.txt"), "ann:x/é")) == (
        "ef:home:demo:chatbot:attachment:ann%3Ax%2F%C3%A9:conv_1:turn_1:external:form/m1/a.txt"
    )


GOOD = "ef:home:demo:chatbot:file:ann:conv_1:turn_1:artifact:files/a.txt"

REFUSED = {
    "nothing": "",
    "too few parts": "ef:home:demo:chatbot:file:ann:conv_1:turn_1:artifact",
    "another scheme": GOOD.replace("ef:", "fi:", 1),
    "another application": GOOD.replace("chatbot", "robot"),
    "an empty tenant": GOOD.replace(":home:", "::"),
    "an empty project": GOOD.replace(":demo:", "::"),
    "an empty user": GOOD.replace(":ann:", "::"),
    "a conversation of another shape": GOOD.replace("conv_1", "a b"),
    "a turn of another shape": GOOD.replace("turn_1", "../turn_1"),
    "another stage": GOOD.replace(":file:", ":message:"),
    "an attachment of the agent": GOOD.replace(":file:", ":attachment:"),
    "a file of the user": GOOD.replace(":artifact:", ":user:"),
    "another area": GOOD.replace("files/", "logs/"),
    "an area alone": GOOD.replace("files/a.txt", "files"),
    "a way out": GOOD.replace("a.txt", "../../a.txt"),
    "a disguised way out": GOOD.replace("a.txt", "%2e%2e/a.txt"),
    "an absolute path": GOOD.replace("files/a.txt", "/etc/passwd"),
    "an event without a message": GOOD.replace(":file:", ":attachment:").replace("artifact:files/", "external:form/"),
    "what needs no escape escaped": GOOD.replace("ann", "%61nn"),
    "a small escape": GOOD.replace("ann", "a%3ann"),
    "no escape where one is needed": GOOD.replace("ann", "a nn"),
    "an escape that is no UTF-8": GOOD.replace("ann", "%FF"),
    "half of a character": GOOD.replace("ann", "\ud800"),
    "half of a character in the path": GOOD.replace("a.txt", "\ud800"),
    "too long a name": GOOD.replace("ann", "a" * MAX_RESOURCE_CHARS),
    "a space before it": f" {GOOD}",
    "a line after it": f"{GOOD}\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_no_resource_name_is_refused_with_a_code(text: str) -> None:
    assert str(parse_resource(GOOD)) == GOOD
    with pytest.raises(PathError) as refused:
        parse_resource(text)
    assert refused.value.code in CODES


def test_every_file_has_a_name_that_leads_back_to_it() -> None:
    for text in (
        "fi:turn_1.files/a/b.txt",
        "fi:turn_1.outputs/ä ö.pdf",
        "fi:turn_1.user.attachments/xx:y.csv",
        "fi:turn_1.external.alert.attachments/m-1/z.txt",
    ):
        path = parse(text)
        assert isinstance(path, FileForm)
        assert parse_resource(str(named(path))).path == path


@given(*[st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)] * 3)
def test_whosever_it_is_the_name_leads_back_to_them(tenant: str, project: str, user: str) -> None:
    path = FilePath(TURN, "files", "a.txt")
    name = ResourceName(tenant=tenant, project=project, user=user, conversation=ConversationId("c"), path=path)
    assert parse_resource(str(name)) == name


@given(st.text(max_size=60) | st.lists(st.sampled_from([*GOOD.split(":"), ":", "%3A", "..", "/", ""])).map(":".join))
def test_any_text_is_the_one_way_to_write_a_name_or_is_refused(text: str) -> None:
    try:
        assert str(parse_resource(text)) == text
    except PathError as error:
        assert error.code in CODES
