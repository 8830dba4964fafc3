"""Bundles are loaded from folders, packages and objects; a fault is named with its file and line."""

import importlib
import sys
from pathlib import Path

import msgspec
import pytest

from tests.harness.bundles import TOOLS, write_bundle, write_shop
from timeloom.bundles.bundle import Bundle, BundleChannel, BundleWidget
from timeloom.bundles.fault import BundleError, BundleNotFoundError
from timeloom.bundles.load import load_bundle
from timeloom.bundles.loaded_bundle import check_bundle
from timeloom.core.policy.gates import policy_name

WHOLE = """
name = "shop"
title = "The shop"
description = "Sells things."
tools = ["tools:price"]
instructions_file = "instructions.md"
output = "types:Offer"
workflow = "types:Offer"
settings_type = "settings_module:ShopSettings"
max_iterations = 7
react = ["react.read"]
skills = ["skills"]
knowledge = ["docs"]

[policies]
ask_before = ["shop.*"]
only_tools = ["shop.*", "react.*"]
refuse = ["shop.delete"]
calls_per_turn = { "shop.price" = 3 }
functions = ["types:check"]

[settings]
currency = "EUR"
limits = { rows = 5 }

[secrets]
key = "env:SHOP_KEY"
token = "file:secret.txt"

[channels.chart]
mime = "application/json"
purpose = "A chart."
widget = "plot"

[widgets.plot]
file = "plot.html"
title = "Plot"

[mcp_servers.search]
command = "search"
"""
TYPES = '''
import msgspec

class Offer(msgspec.Struct):
    item: str
    price: float

def check(proposal):
    """Allow everything."""
'''
SETTINGS = """
import msgspec

class Limits(msgspec.Struct, frozen=True):
    rows: int = 10
    chars: int = 100

class ShopSettings(msgspec.Struct):
    currency: str = "USD"
    limits: Limits = Limits()
"""


def write_whole(folder: Path, toml: str = WHOLE) -> Path:
    write_bundle(folder, toml, tools=TOOLS, types=TYPES, settings_module=SETTINGS)
    (folder / "instructions.md").write_text("Sell.")
    (folder / "plot.html").write_text("<p>plot</p>")
    return folder


def fault_of(folder: Path) -> BundleError:
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    return caught.value


def test_a_folder_describes_all_parts_of_a_bundle(tmp_path: Path) -> None:
    loaded = load_bundle(write_whole(tmp_path / "shop"))
    bundle = loaded.bundle
    assert (bundle.name, bundle.title, bundle.description) == ("shop", "The shop", "Sells things.")
    assert [one.spec.tool_id for one in bundle.tools] == ["shop.price"]
    assert (bundle.instructions, bundle.max_iterations, bundle.react) == ("Sell.", 7, ("react.read",))
    assert bundle.output is bundle.workflow
    assert msgspec.to_builtins(bundle.settings) == {"currency": "EUR", "limits": {"rows": 5, "chars": 100}}
    assert bundle.secrets == {"key": "env:SHOP_KEY", "token": f"file:{tmp_path / 'shop' / 'secret.txt'}"}
    assert bundle.channels == {"chart": BundleChannel(mime="application/json", purpose="A chart.", widget="plot")}
    assert bundle.widgets == {"plot": BundleWidget(html="<p>plot</p>", title="Plot")}
    names = [policy_name(one) for one in bundle.policies]
    assert names == ["only_allowed_tools", "refused_tools", "limited_calls", "tools_that_need_approval", "check"]


def test_parts_that_do_not_exist_yet_are_named(tmp_path: Path) -> None:
    missing = load_bundle(write_whole(tmp_path / "shop")).missing
    assert [(one.part, one.names) for one in missing] == [
        ("skills", ("skills",)),
        ("knowledge", ("docs",)),
        ("mcp_servers", ("search",)),
    ]


def test_descriptors_name_tools_and_skills_of_the_bundle(tmp_path: Path) -> None:
    descriptor = """
TOOLS_SPECS = [{"module": "tools", "alias": "goods"}]
MCP_TOOL_SPECS = [{"server_id": "search", "alias": "web"}]
ALLOWED_TOOLS = ["goods.*", "react.read"]
"""
    toml = 'name = "shop"\ntools_descriptor = "described"\nskills_descriptor = "skilled"'
    skilled = "CUSTOM_SKILLS_ROOT = 'skills'"
    loaded = load_bundle(write_bundle(tmp_path / "a", toml, tools=TOOLS, described=descriptor, skilled=skilled))
    assert [one.spec.tool_id for one in loaded.bundle.tools] == ["goods.price"]
    assert loaded.bundle.allowed_tools == ("goods.*", "react.read")
    assert [one.part for one in loaded.missing] == ["mcp_servers", "skills"]
    error = fault_of(
        write_bundle(tmp_path / "b", toml, described='TOOLS_SPECS = [{"modul": "tools"}]', skilled=skilled)
    )
    assert (error.file, error.line) == ("bundle.toml", 2)
    assert "described.py, line 1" in error.reason


@pytest.mark.parametrize(
    "more", ["[config.react]\nmax_iterations = 9", "[react]\nmax_iterations = 9", "react.max_iterations = 9"]
)
def test_the_rounds_have_three_names(tmp_path: Path, more: str) -> None:
    assert load_bundle(write_shop(tmp_path / "shop", more=more)).bundle.max_iterations == 9


def test_equal_module_names_of_two_bundles_do_not_clash(tmp_path: Path) -> None:
    one = write_bundle(tmp_path / "one", 'name = "one"\ntools = ["tools:price"]', tools=TOOLS)
    other = TOOLS.replace("costs 3", "costs 4").replace("shop.price", "market.price")
    two = write_bundle(tmp_path / "two", 'name = "two"\ntools = ["tools:price"]', tools=other)
    ids = [load_bundle(folder).bundle.tools[0].spec.tool_id for folder in (one, two)]
    assert ids == ["shop.price", "market.price"]
    assert "tools" not in sys.modules


def test_modules_of_a_bundle_import_each_other_and_a_new_load_sees_changes(tmp_path: Path) -> None:
    tools = TOOLS.replace("from timeloom", "from .words import WORD\nfrom timeloom", 1) + "\nprice.word = WORD\n"
    folder = write_bundle(tmp_path / "shop", 'name = "shop"\ntools = ["tools:price"]', tools=tools, words="WORD = 'a'")
    assert getattr(load_bundle(folder).bundle.tools[0], "word") == "a"  # noqa: B009
    (folder / "words.py").write_text("WORD = 'b'")
    assert getattr(load_bundle(folder).bundle.tools[0], "word") == "b"  # noqa: B009


def test_the_init_module_of_a_folder_belongs_to_the_bundle(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "shop", 'name = "shop"\ntools = ["tools:price"]', __init__="WORD = 'a'")
    (folder / "tools.py").write_text("from . import WORD\n" + TOOLS)
    assert load_bundle(folder).bundle.name == "shop"


@pytest.mark.parametrize(
    ("toml", "line", "words"),
    [
        ('name = "shop"\ntool = ["tools:price"]', 2, "there is no key `tool`; did you mean `tools`? the keys of a"),
        ('name = "shop"\n\n[policies]\nask_befor = ["a.b"]', 4, "`policies.ask_befor`; did you mean `ask_before`?"),
        ('name = "shop"\n[channels.chart]\nmime = "text/plain"\nwidgit = ""', 4, "`channels.chart.widgit`"),
        ('name = "shop"\n[react]\nround = 2', 3, "`react.round`"),
        ('title = "shop"', 1, "the key `name` is missing"),
        ('name = "a b"', 1, "`name`: expected 1 to 64 letters, digits, `_` and `-`, without spaces"),
        ('name = "shop"\n[channels.answer]\nmime = "text/plain"', 2, "'answer' is the name of a built-in channel"),
        ('name = "shop"\n[channels.chart]\nmime = "text/plain"\nwidget = "plot"', 4, "widgets of the bundle are none"),
        ('name = "shop"\nmax_iterations = 0', 2, "`max_iterations`: expected `int` >= 1"),
        ('name = "shop"\n[policies]\nask_before = ["x"]', 3, "`policies.ask_before`"),
        ('name = "shop"\n[policies]\ncalls_per_turn = { "a.b" = -1 }', 3, "`policies.calls_per_turn`"),
        ('name = "shop"\ntools_descriptor = "nothing_of_that_name"', 2, "No module named"),
        (
            'name = "shop"\n[channels.chart]\nmime = "x"',
            3,
            "`channels.chart.mime`: expected a type such as `text/plain`",
        ),
        ('name = "shop"\ntools = ["tools"]', 2, "no installed package offers the tools 'tools'"),
        ('name = "shop"\ntools = ["tools:"]', 2, "expected `module:NAME`"),
        ('name = "shop"\ntools = ["tools:cost"]', 2, "the module tools has no cost"),
        ('name = "shop"\ntools = ["nothing_of_that_name:cost"]', 2, "No module named 'nothing_of_that_name'"),
        ('name = "shop"\noutput = "tools:price"', 2, "tools:price is no class"),
        ('name = "shop"\nsettings_type = "types:dict"', 2, "has no dict"),
        ('name = "shop"\nsettings_type = "builtins:dict"', 2, "must be a subclass of msgspec.Struct"),
        (
            'name = "shop"\nsettings_type = "types:Offer"\n[settings]\nitm = "x"',
            4,
            "`settings.itm`; did you mean",
        ),
        ('name = "shop"\nsettings_type = "types:Offer"\n[settings]\nitem = 3', 4, "`settings.item`: expected `str`"),
        ('name = "shop"\nsettings_type = "types:Offer"', 1, "the key `settings.item` is missing"),
        ('name = "shop"\n[settings]\n"a b" = 3', 3, "the name of a setting is a Python name"),
        ('name = "shop"\n[secrets]\nkey = "sk-12345"', 3, "`secrets.key`: the text is no reference"),
        ('name = "shop"\ninstructions_file = "../x"', 2, "must be a file in the folder of the bundle"),
        ('name = "shop"\ninstructions_file = "x.md"', 2, "x.md is not a regular file"),
        ('name = "shop"\n[policies]\nfunctions = ["types:NAME"]', 3, "the module types has no NAME"),
        ('name = "shop"\n[policies]\nfunctions = ["sys:path"]', 3, "sys:path is no function"),
    ],
)
def test_a_wrong_key_is_named_with_its_line(tmp_path: Path, toml: str, line: int, words: str) -> None:
    error = fault_of(write_bundle(tmp_path / "shop", toml, tools=TOOLS, types=TYPES))
    assert (error.file, error.line, error.code) == ("bundle.toml", line, "bundle_invalid")
    assert words in str(error)
    assert "sk-12345" not in str(error)


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    assert "line 2" in str(fault_of(write_bundle(tmp_path / "a", 'name = "shop"\ntools = 3 4')))
    (tmp_path / "a" / "bundle.toml").write_bytes(b'name = "\xff"')
    assert "not UTF-8" in str(fault_of(tmp_path / "a"))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\nraise ValueError('no stock')", 2, "ValueError: no stock"),
        ("def f(:\n    pass", 1, "SyntaxError"),
        ("import helpers", 1, "modules of a bundle import each other by `from .helpers import …`"),
        ("import sys\nsys.exit(3)", 2, "it tried to end the process"),
        ("from timeloom import tool\n@tool\ndef price(item): ...", 2, ""),
    ],
)
def test_an_error_in_the_code_of_a_bundle_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    toml = 'name = "shop"\ntools = ["tools:price"]'
    error = fault_of(write_bundle(tmp_path / "shop", toml, tools=text, helpers="X = 1"))
    assert error.file == "tools.py"
    assert error.line >= line
    assert words in error.reason
    assert str(tmp_path) not in str(error)


def test_two_tools_of_one_name_are_a_fault(tmp_path: Path) -> None:
    more = write_shop(tmp_path / "shop").joinpath("bundle.toml")
    more.write_text('name = "shop"\ntools = ["tools:price", "tools:price"]')
    assert "'shop.price' is an id or alias of" in str(fault_of(tmp_path / "shop"))


def test_a_channel_with_an_unknown_widget_is_a_fault() -> None:
    channels = {"chart": BundleChannel(mime="text/plain", widget="plot")}
    with pytest.raises(BundleError, match="names the widget 'plot'; the widgets of the bundle are none"):
        check_bundle(Bundle(name="shop", channels=channels))


@pytest.mark.parametrize(
    "bundle",
    [
        Bundle(name="a b"),
        Bundle(name="shop", max_iterations=0),
        Bundle(name="shop", channels={"thinking": BundleChannel(mime="text/plain")}),
    ],
)
def test_a_bundle_of_a_program_is_checked_too(bundle: Bundle) -> None:
    with pytest.raises(BundleError):
        check_bundle(bundle)


def test_packages_have_a_file_or_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    with_file = write_shop(tmp_path / "shop_with_file")
    (with_file / "__init__.py").write_text("")
    with_object = tmp_path / "shop_with_object"
    with_object.mkdir()
    (with_object / "__init__.py").write_text("from timeloom import Bundle\nSHOP = Bundle(name='object')\n")
    importlib.invalidate_caches()
    assert load_bundle("shop_with_file").bundle.tools[0].spec.tool_id == "shop.price"
    assert load_bundle("shop_with_object").bundle.name == "object"
    assert load_bundle("shop_with_object:SHOP").bundle.name == "object"
    with pytest.raises(BundleNotFoundError, match="is no Bundle object"):
        load_bundle("shop_with_object:Bundle")
    (with_object / "__init__.py").write_text("raise ValueError('broken')")
    del sys.modules["shop_with_object"]
    with pytest.raises(BundleError, match=r"__init__\.py, line 1: ValueError: broken"):
        load_bundle("shop_with_object:SHOP")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nothing_of_that_name", "there is no folder and no package"),
        ("nothing_of_that_name:SHOP", "there is no module"),
        ("./nowhere", "there is no folder './nowhere'"),
        ("json:a b", "expected a folder, a package or MODULE:NAME"),
        ("json", "and no Bundle objects"),
        ("", "there is no folder"),
    ],
)
def test_a_source_that_does_not_exist_is_no_fault_of_a_bundle(source: str, words: str) -> None:
    with pytest.raises(BundleNotFoundError, match=words):
        load_bundle(source)


def test_a_folder_without_a_file_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(BundleNotFoundError, match=r"has no bundle\.toml; `timeloom new NAME` writes a bundle"):
        load_bundle(tmp_path)
    with pytest.raises(BundleNotFoundError, match="does not exist"):
        load_bundle(tmp_path / "nowhere")
