"""Names of users: visible, short, and distinguishable by eye, wherever they come from."""

import unicodedata
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.codes import CodedError
from timeloom.platform.account import current_user
from timeloom.platform.user_names import MAX_USER_CHARS, check_user_name, is_user_name
from timeloom.server.auth.api_key_file import read_keys
from timeloom.server.auth.api_keys import local_key
from timeloom.server.auth.principal import Principal

REFUSED = [
    "",
    " ",
    " ann",
    "ann ",
    "ann\n",
    "an\x00n",
    "an\x1b[31mn",
    "an\x7fn",
    "an\x85n",
    "an\u200bn",  # zero-width space
    "an\u200dn",  # zero-width joiner
    "\u202enna",  # right-to-left override
    "ann\u2066",  # isolate
    "ann\u2028",  # line separator
    "an\u00adn",  # soft hyphen
    "an\u00a0n",  # no-break space
    "\ufeffann",  # byte order mark
    "ann\u3164",  # Hangul filler
    "ann\U000e0041",  # tag
    "ann\ud800",  # lone surrogate
    "ann\ue000",  # private use
    "a" * (MAX_USER_CHARS + 1),
]


@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_a_name_that_cannot_be_told_by_eye_is_refused_at_every_entrance(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a user name must have 1 to 128 visible characters"):
        check_user_name(name)
    with pytest.raises(ValueError, match="user name"):
        Principal(tenant="home", project="demo", user=name)
    with pytest.raises(ValueError, match="user name"):
        local_key("token", name)
    with pytest.raises(msgspec.ValidationError, match="user name"):
        msgspec.convert({"tenant": "home", "project": "demo", "user": name}, Principal)
    keys = tmp_path / "keys.toml"
    escaped = "".join(f"\\U{ord(char):08x}" for char in name)
    keys.write_text(f'[[keys]]\ntenant="a"\nproject="b"\nuser="{escaped}"\nsha256="{"0" * 64}"\n')
    with pytest.raises(CodedError) as caught:
        read_keys(keys)
    assert caught.value.code == "config_unreadable"


@pytest.mark.parametrize(
    "name",
    ["ann", 'ann "a" é', "ann@example.org", "auth0|5f7c8ec7c33c6c004bbafe82", "李小龙", "Ὀδυσσεύς", "a" * 128, "👩"],
)
def test_a_visible_name_is_accepted(name: str) -> None:
    assert is_user_name(name)
    assert Principal(tenant="home", project="demo", user=name).user == name


@given(st.text(max_size=140))
def test_no_accepted_name_has_a_control_or_format_character(name: str) -> None:
    if is_user_name(name):
        assert 0 < len(name) <= MAX_USER_CHARS
        assert {unicodedata.category(char) for char in name}.isdisjoint({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def test_an_account_with_a_name_that_is_refused_is_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    assert current_user() == "ann"
    monkeypatch.setenv("LOGNAME", "ann\x1b[2J")
    assert current_user() == "somebody"
