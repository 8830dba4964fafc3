"""Regular expressions mean the same on every Python from 3.11 on."""

import importlib
import pkgutil
import re

import timeloom

# Before 3.11.5 a possessive group can match what it must not; an atomic group around the repetition is right everywhere.
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9]*,?[0-9]*\})\+")


def test_no_pattern_has_a_possessive_group() -> None:
    found: list[str] = []
    for module in pkgutil.walk_packages(timeloom.__path__, "timeloom."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if (
                isinstance(value, re.Pattern)
                and isinstance(text := value.pattern, str)
                and POSSESSIVE_GROUP.search(text)
            ):  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                found.append(f"{module.name}.{name}")
    assert found == []
