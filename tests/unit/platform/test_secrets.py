"""References to secrets, and texts without them."""

import logging
import os
import pickle
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.platform.secret_command import SecretCommandError, read_command_output
from timeloom.platform.secrets import (
    MASK,
    SECRETS,
    RedactingFilter,
    SecretError,
    SecretRegistry,
    SecretText,
    is_reference,
    parse_reference,
    resolve_key,
    resolve_secret,
)

VALUE = "s3cr3t-v4lue/with+signs=="


def test_a_variable_is_read_from_the_environment() -> None:
    assert resolve_secret("env:MY_KEY", {"MY_KEY": VALUE}).reveal() == VALUE


def test_a_file_loses_one_newline_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{VALUE}\n\n")
    assert resolve_secret(f"file:{tmp_path}/key").reveal() == f"{VALUE}\n"


def test_a_file_may_be_a_link_to_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{VALUE}\r\n")
    (tmp_path / "link").symlink_to(tmp_path / "key")
    assert resolve_secret(f"file:{tmp_path}/link").reveal() == VALUE


def test_a_command_runs_without_a_shell() -> None:
    secret = resolve_secret(f"command:{sys.executable} -c 'print(\"a$HOME-abcdefg\")'")
    assert secret.reveal() == "a$HOME-abcdefg"


@pytest.mark.parametrize(
    ("reference", "code", "said"),
    [
        ("env:NOT_SET_ANYWHERE", "secret_unavailable", "the variable is not set"),
        ("env:not a name", "secret_malformed", "the name of a variable"),
        ("file:/nowhere/key", "secret_unavailable", "No such file"),
        ("file:/", "secret_unavailable", "not a regular file"),
        ("command:no-such-program-here x", "secret_unavailable", "not installed"),
        ("command:false", "secret_unavailable", "ended with status 1"),
        ("command:true", "secret_unavailable", "printed nothing"),
        ("command:echo 'unclosed", "secret_unavailable", "cannot be split into words"),
        ("command:   ", "secret_malformed", "a command"),
        ("vault:x", "secret_malformed", "`env:NAME`, `file:PATH` or `command:COMMAND`"),
        ("", "secret_malformed", "`env:NAME`"),
    ],
)
def test_an_unusable_reference_is_explained(reference: str, code: str, said: str) -> None:
    with pytest.raises(SecretError, match=r".") as caught:
        resolve_secret(reference)
    assert caught.value.code == code
    assert said in str(caught.value)
    assert code == "secret_malformed" or reference in str(caught.value)


def test_a_text_that_may_be_the_secret_is_not_repeated() -> None:
    with pytest.raises(SecretError) as caught:
        parse_reference(VALUE)
    assert VALUE not in str(caught.value)


def test_an_error_contains_neither_output_nor_bytes_of_a_secret(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff" + VALUE.encode())
    noisy = f"import sys; print({VALUE!r}); print({VALUE!r}, file=sys.stderr); sys.exit(3)"
    for reference in (f"file:{tmp_path}/key", f'command:{sys.executable} -c "{noisy}"'):
        with pytest.raises(SecretError) as caught:
            resolve_secret(reference)
        cause = caught.value.__cause__
        assert cause is None
        assert VALUE not in str(caught.value).replace(reference, "").replace(ascii(reference)[:121], "")


def test_a_command_that_hangs_is_killed_with_its_children() -> None:
    with pytest.raises(SecretCommandError, match=r"did not finish within 0\.2 s"):
        read_command_output("sh -c 'sleep 600 & sleep 600'", {"PATH": "/usr/bin:/bin"}, 100, 0.2)


def test_a_command_without_end_is_cut() -> None:
    assert len(read_command_output("yes", {"PATH": "/usr/bin:/bin"}, 1000, 20)) == 1000
    with pytest.raises(SecretError, match="more than 65536 bytes"):
        resolve_secret("command:yes")


def test_a_pipe_without_a_writer_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SecretError, match="not a regular file"):
        resolve_secret(f"file:{tmp_path}/pipe")


def test_a_key_has_one_line_of_visible_characters() -> None:
    assert resolve_key("plain-key-1234") == "plain-key-1234"
    assert resolve_key("") == ""
    assert resolve_key("env:K", {"K": "sk-abcdefgh"}) == "sk-abcdefgh"
    with pytest.raises(SecretError, match="is no key"):
        resolve_key("env:K", {"K": "two\nlines-of-text"})


def test_a_secret_shows_its_value_to_nobody_who_prints_it() -> None:
    secret = SecretText(VALUE)
    assert VALUE not in f"{secret} {secret!r} {[secret]} {secret:s}"
    assert len(secret) == len(VALUE)
    assert secret == SecretText(VALUE)
    assert secret != VALUE
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)


def test_every_resolved_secret_is_redacted_afterwards() -> None:
    resolve_secret("env:K", {"K": "remembered-value-1"})
    assert SECRETS.redact("a remembered-value-1 b") == f"a {MASK} b"


def test_a_short_value_is_not_redacted() -> None:
    registry = SecretRegistry()
    registry.remember("test")
    assert registry.redact("a test") == "a test"


class _Row(msgspec.Struct, frozen=True):
    text: str
    data: bytes = b""
    rows: "tuple[_Row, ...]" = ()
    fields: dict[str, object] = {}


def test_values_are_redacted_at_any_depth() -> None:
    registry = SecretRegistry()
    registry.remember(VALUE)
    row = _Row(f"x{VALUE}", VALUE.encode(), (_Row(VALUE),), {VALUE: [1, VALUE]})
    clean = registry.redact_value(row)
    assert VALUE.encode() not in msgspec.json.encode(clean)
    assert clean.data == MASK.encode()
    untouched = _Row("plain", fields={"a": 1})
    assert registry.redact_value(untouched) is untouched


def test_a_secret_of_several_lines_is_redacted_when_its_lines_are_joined() -> None:
    registry = SecretRegistry()
    registry.remember("-----BEGIN KEY-----\nabcdefghijklmnopqrst\nuvwxyzabcdefghijklmn\n-----END KEY-----")
    assert registry.redact("abcdefghijklmnopqrst uvwxyzabcdefghijklmn") == f"{MASK} {MASK}"
    assert "BEGIN KEY" in registry.redact("-----BEGIN KEY-----")


@given(st.text(min_size=8, max_size=60), st.text(max_size=20), st.text(max_size=20))
def test_no_form_of_a_secret_survives(value: str, before: str, after: str) -> None:
    registry = SecretRegistry()
    registry.remember(value)
    json = msgspec.json.encode(value)[1:-1].decode()
    for form in (value, json):
        redacted = registry.redact(f"{before}{form}{after}")
        assert value not in redacted or value in MASK or value in f"{before}{MASK}{after}"


def test_a_log_record_loses_secrets_in_its_message_and_traceback(caplog: pytest.LogCaptureFixture) -> None:
    registry = SecretRegistry()
    registry.remember(VALUE)
    logger = logging.getLogger("test.secrets")
    logger.addFilter(RedactingFilter(registry))
    try:
        raise ValueError(VALUE)
    except ValueError:
        logger.exception("failed with %s", VALUE)
    logger.warning("nothing to hide %d", 1)
    assert VALUE not in caplog.text
    assert "nothing to hide 1" in caplog.text
    assert "ValueError: [secret]" in caplog.text


def test_a_relative_file_is_relative_to_the_folder_that_names_it(tmp_path: Path) -> None:
    assert str(parse_reference("file:key").anchored(tmp_path)) == f"file:{tmp_path}/key"
    assert str(parse_reference("file:~/key").anchored(tmp_path)) == "file:~/key"
    assert str(parse_reference("env:KEY").anchored(tmp_path)) == "env:KEY"
    assert is_reference("command:pass show x")
    assert not is_reference("sk-abc")
