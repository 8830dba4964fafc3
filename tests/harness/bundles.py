"""Writes bundles for tests."""

from pathlib import Path

TOOLS = '''
from timeloom import tool

@tool("shop.price", effect="pure")
def price(item: str) -> str:
    """Return the price of an item."""
    return f"{item} costs 3"
'''


def write_bundle(folder: Path, toml: str, **modules: str) -> Path:
    """Write a folder with this `bundle.toml` and these Python modules, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bundle.toml").write_text(toml)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def write_shop(folder: Path, name: str = "shop", more: str = "") -> Path:
    """Write a bundle with one tool, which returns the price of an item."""
    toml = f'name = "{name}"\ntitle = "The {name}"\ntools = ["tools:price"]\n{more}'
    return write_bundle(folder, toml, tools=TOOLS)
