"""Regular expressions mean the same on every Python from 3.11 on."""

import importlib
import pkgutil
import re
from typing import cast

import timeloom

# Before 3.11.5 a possessive group can match what it must not; an atomic group around the repetition is right.
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9]*,?[0-9]*\})\+")


def test_no_pattern_has_a_possessive_group() -> None:
    modules = [one.name for one in pkgutil.walk_packages(timeloom.__path__, "timeloom.") if "__main__" not in one.name]
    found: list[str] = []
    for module in modules:
        for name, value in vars(importlib.import_module(module)).items():
            text = str(cast(re.Pattern[str], value).pattern) if isinstance(value, re.Pattern) else ""
            if POSSESSIVE_GROUP.search(text):
                found.append(f"{module}.{name}")
    assert len(modules) > 100
    assert found == []
