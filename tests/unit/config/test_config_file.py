"""The settings file: its content, its location, and errors for an invalid one."""

import os
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.config import FOLDER, TYPED, assert_typed, parse_file, resolve_settings
from timeloom.config.catalogue import SETTING_SPECS, SPEC_BY_KEY
from timeloom.config.errors import ConfigError
from timeloom.config.load import gather_sources, load_data_dir, load_settings
from timeloom.config.resolve import LoadedSettings
from timeloom.config.settings import Settings
from timeloom.config.toml_file import MAX_BYTES
from timeloom.platform.toml_lines import key_lines, line_of


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        (
            "[react]\nmax_iterations = '3'",
            "react.max_iterations in timeloom.toml, line 2 is '3'; expected a whole number",
        ),
        ("model = 3", "model in timeloom.toml, line 1 is 3; expected text"),
        ("model = true", "is true; expected text"),
        ("model = []", "is an array"),
        ("model.x = 1", "is a table"),
        ("model = 1979-05-27", "is a date or a time"),
        ("timeouts.connect_s = inf", "is inf; expected a number above 0"),
        ("read.tokens = 0x" + "f" * 60_000, "is a number that is far too large"),
        ("data_dir = ''", "is ''; expected a path"),
        ("data_dir = 3", "is 3; expected a path"),
        ("[prices.m]\ninput = nan\noutput = 1", "prices in timeloom.toml, line 1, 'm', input is nan; expected a table"),
        ("[prices.m]\ninput = 1\noutput = 1\ncash = 2", "'m': Object contains unknown field `cash`"),
        ("prices = 3", "prices in timeloom.toml, line 1 is 3; expected a table"),
        ("\nreact = 3", "timeloom.toml, line 2: `react` is a group and takes no value; it contains `react.max_i"),
        ("[[react]]", "timeloom.toml, line 1: `react` is a group and takes no value"),
        ("openai = {api_key = 'sk-1'}", "openai.api_key in timeloom.toml, line 1 is a secret, and files are easily"),
    ],
)
def test_a_value_in_the_file_that_cannot_be_taken_is_named_with_its_line(toml: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_file(toml)
    assert words in str(caught.value)
    assert caught.value.code == "setting_invalid"
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        (
            "# a\n\n[react]\nmax_iteration = 3",
            "line 4: there is no setting `react.max_iteration`; did you mean `react.m",
        ),
        ("max_iterations = 3", "line 1: there is no setting `max_iterations`; did you mean `react.max_iterations`?"),
        ("model = 'a:b'\n[reakt]\nx = 1", "line 2: there is no setting `reakt`; did you mean `react`?"),
        ("zzzzzz.yyyy = 3", "line 1: there is no setting `zzzzzz`; `timeloom settings` lists all settings"),
        ("react = {max = 1}", "line 1: there is no setting `react.max`;"),
        ('"react.max_iterations" = 3', "line 1: there is no setting `'react.max_iterations'`; did you mean"),
        ('"\\u001b[31m" = 3', "line 1: there is no setting `'\\x1b[31m'`;"),
        (f"{'k' * 200} = 3", f"line 1: there is no setting `{'k' * 80}…`;"),
        ("model = '''\n[react]\n'''\nfoo = 1", "line 4: there is no setting `foo`;"),
    ],
)
def test_an_unknown_key_is_named_with_its_line_and_the_nearest_known_one(toml: str, words: str) -> None:
    for text in (toml, toml.replace("\n", "\r\n")):
        with pytest.raises(ConfigError) as caught:
            parse_file(text)
        assert f"timeloom.toml, {words}" in str(caught.value)
        assert caught.value.code == "setting_unknown"


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("model = ", "timeloom.toml is not TOML: Invalid value (at line 1, column 9)"),
        ("\n\n[react", "at line 3"),
        ("model = 'a'\nmodel = 'b'", "Cannot overwrite a value (at line 2"),
        ("model = " + "[" * 5000, "timeloom.toml: values nest too deeply"),
        ("\na" + ".a" * 100_000 + " = 1", "timeloom.toml, line 2: a key with more than 32 dots"),
        ("react = {a" + ".'b'" * 40 + " = 1}", "timeloom.toml, line 1: a key with more than 32 dots"),
        ("read.tokens = " + "9" * 5000, "timeloom.toml: a number has too many digits"),
    ],
)
def test_a_file_that_is_not_toml_says_where(toml: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_file(toml)
    assert words in str(caught.value)
    assert caught.value.code == "config_unreadable"


def test_text_with_many_dots_is_no_key_with_many_dots() -> None:
    assert resolve_settings(f"instructions = '{'a.' * 100}'").instructions == "a." * 100
    assert resolve_settings("[prices]\n" + "".join(f"m{n} = {{input=0.{n}1, output=1.5}}\n" for n in range(50))).prices


def test_paths_in_the_file_are_relative_to_it_and_a_tilde_is_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert resolve_settings("data_dir = 'data'").data_dir == FOLDER / "data"
    assert resolve_settings("data_dir = '/data'").data_dir == Path("/data")
    assert resolve_settings("data_dir = '~/data'").data_dir == Path("/home/me/data")
    assert resolve_settings(TIMELOOM_DATA_DIR="data ").data_dir == Path("data")


def loaded_in(folder: Path, *, config: str | None = None, **environ: str) -> LoadedSettings:
    return load_settings(gather_sources({}, config, environ=environ, folder=folder))


def test_the_file_is_the_one_that_is_named_else_the_folders_own(tmp_path: Path) -> None:
    assert loaded_in(tmp_path).settings == Settings()
    for rounds, name in enumerate(("timeloom.toml", "one.toml", "two.toml"), start=1):
        (tmp_path / name).write_text(f"react.max_iterations = {rounds}")
    assert loaded_in(tmp_path).settings.react.max_iterations == 1
    assert loaded_in(tmp_path, TIMELOOM_CONFIG="").settings.react.max_iterations == 1
    assert loaded_in(tmp_path, TIMELOOM_CONFIG="one.toml").settings.react.max_iterations == 2
    assert loaded_in(tmp_path, TIMELOOM_CONFIG="one.toml", config="two.toml").settings.react.max_iterations == 3
    assert loaded_in(tmp_path, config=os.devnull).settings == Settings()


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "timeloom.toml").write_bytes(b"\xef\xbb\xbfread.tokens = 7\r\n")
    assert loaded_in(tmp_path).settings.read.tokens == 7


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"# a\n\nmodel = '\xe9'")
    (tmp_path / "large").write_text("#" * (MAX_BYTES + 1))
    (tmp_path / "timeloom.toml").mkdir()
    said: dict[str | None, str] = {}
    for name in ("missing.toml", "latin", "large", "timeloom.toml", "", "a\0b", None):
        with pytest.raises(ConfigError) as caught:
            loaded_in(tmp_path, config=name)
        assert caught.value.code == "config_unreadable"
        said[name] = str(caught.value)
    assert said == {
        "missing.toml": "missing.toml cannot be read: No such file or directory",
        "latin": "latin, line 3: the bytes are not UTF-8",
        "large": "large is larger than 262144 bytes",
        "timeloom.toml": "timeloom.toml cannot be read: Is a directory",
        "": "--config or TIMELOOM_CONFIG must name a file",
        "a\0b": "--config or TIMELOOM_CONFIG must name a file",
        None: "timeloom.toml is not a regular file",
    }


def test_a_folder_that_cannot_be_looked_into_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"timeloom.toml cannot be read: File name too long"):
        loaded_in(tmp_path / ("x" * 5000))


def test_a_pipe_that_nobody_named_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "timeloom.toml")
    with pytest.raises(ConfigError, match=r"timeloom\.toml is not a regular file"):
        loaded_in(tmp_path)


def test_instructions_come_from_the_text_or_the_file_whichever_counts_more(tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text("Be brief.")
    config = tmp_path / "timeloom.toml"
    config.write_text("instructions_file = 'own.md'")
    from_file = loaded_in(tmp_path, config=config.name)
    assert from_file.settings.instructions == "Be brief."
    assert from_file.origins["instructions"].place == "instructions_file in timeloom.toml, line 1"
    assert loaded_in(tmp_path, config=config.name, TIMELOOM_INSTRUCTIONS="Be long.").settings.instructions == "Be long."
    config.write_text("instructions = 'Be kind.'")
    assert loaded_in(tmp_path, config=config.name).settings.instructions == "Be kind."
    environ = {"TIMELOOM_INSTRUCTIONS_FILE": str(tmp_path / "own.md")}
    assert loaded_in(tmp_path, config=config.name, **environ).settings.instructions == "Be brief."
    config.write_text("instructions = 'Be kind.'\ninstructions_file = 'own.md'")
    with pytest.raises(ConfigError, match="both set the instructions; remove one"):
        loaded_in(tmp_path, config=config.name)
    config.write_text("instructions_file = 'missing.md'")
    with pytest.raises(ConfigError, match=r"missing\.md cannot be read"):
        loaded_in(tmp_path, config=config.name)


def test_the_data_folder_is_known_whatever_the_variables_say_of_other_settings(tmp_path: Path) -> None:
    environ = {"AI_REACT_MAX_ITERATIONS": "lots", "TIMELOOM_DATA_DIR": "there"}
    assert load_data_dir(gather_sources({}, environ=environ, folder=tmp_path)) == Path("there")
    assert load_data_dir(gather_sources({"data_dir": "here"}, environ=environ, folder=tmp_path)) == Path("here")


TOML_VALUES = st.recursive(
    st.one_of(
        TYPED.map(lambda text: msgspec.json.encode("".join(c for c in text if c.isprintable())).decode()),
        st.integers().map(str),
        st.floats().map(lambda number: str(number).replace("e+", "e")),
        st.sampled_from(["true", "1979-05-27", "07:32:00", "'x'"]),
    ),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda parts: f"[{', '.join(parts)}]")
        | st.dictionaries(st.sampled_from(["input", "output", "m", "react"]), inner, max_size=2).map(
            lambda parts: f"{{{', '.join(f'{key} = {value}' for key, value in parts.items())}}}"
        )
    ),
    max_leaves=4,
)
KEYS = st.sampled_from([key for row in SETTING_SPECS for key in row.keys]) | st.from_regex(
    r"[a-z.'\"]{1,8}", fullmatch=True
)
LINES = st.one_of(
    st.tuples(KEYS, TOML_VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    st.sampled_from(["[react]", "[prices.m]", "[[x]]", "", "# comment = 1", "'''", 'instructions = """', "a = {"]),
    st.text(max_size=10),
)


@given(st.lists(LINES, max_size=6).map("\n".join) | st.text())
def test_any_text_of_a_file_is_typed_values_or_one_error(text: str) -> None:
    try:
        file = parse_file(text)
    except ConfigError as error:
        assert "timeloom.toml" in str(error)
    else:
        tomllib.loads(text)
        for key, said in file.values.items():
            assert_typed(SPEC_BY_KEY[key], said.value)


SIMPLE_KEYS = st.sampled_from(["a", "b", "'q.r'", '"s = #"', "long-key_1"])
STATEMENTS = st.one_of(
    st.sampled_from(["", "# [x]", "  # a = 1"]),
    st.tuples(
        SIMPLE_KEYS,
        st.sampled_from(["1", "1.5", "'[x]'", '"\\"]"', "[\n 1, # ]\n 2\n]", '"""\n"\n[y]\n\\\n"""', "'''\n''\n'''"]),
    ).map(lambda pair: f"{pair[0]}.k = {pair[1]}"),
)


@given(st.lists(STATEMENTS, max_size=8))
def test_the_line_of_a_key_is_where_its_statement_begins(parts: list[str]) -> None:
    """Each statement is in a separate table, so that all keys differ."""
    text, wanted = "", dict[tuple[str, ...], int]()
    for number, part in enumerate(parts):
        text += f"[t{number}]\n"
        wanted[(f"t{number}",)] = text.count("\n")
        if part and "#" not in part.partition("=")[0].replace('"s = #"', ""):
            (name,) = tomllib.loads(part)
            wanted[(f"t{number}", name, "k")] = wanted[(f"t{number}", name)] = text.count("\n") + 1
        text += part + "\n"
    tomllib.loads(text)
    lines = key_lines(text)
    assert lines == wanted
    assert all(line_of(lines, (*path, "inside")) == line for path, line in wanted.items())
    assert line_of(lines, ("nowhere",)) == 1


def test_a_link_that_leads_nowhere_is_not_taken_for_no_file(tmp_path: Path) -> None:
    (tmp_path / "timeloom.toml").symlink_to(tmp_path / "gone.toml")
    with pytest.raises(ConfigError, match=r"timeloom\.toml is a broken link"):
        gather_sources({}, environ={}, folder=tmp_path)
