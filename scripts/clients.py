"""Writes the generated parts of the clients (`make clients`), or compares them with `--check`."""

import argparse
import json
import sys
from pathlib import Path

from scripts.client_model import Api, read_document
from scripts.client_python import write_operations, write_types
from scripts.client_typescript import write_typescript
from timeloom.server.endpoints import ENDPOINTS
from timeloom.server.openapi.document import build_document

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Write the files, or name those that `--check` finds out of date; return the exit code."""
    parser = argparse.ArgumentParser(description="Writes the generated parts of the clients.")
    parser.add_argument("--check", action="store_true", help="only compare them with the OpenAPI document")
    stale = [name for name, text in generate().items() if (ROOT / name).read_text(encoding="utf-8") != text]
    if parser.parse_args(arguments).check:
        print("".join(f"{name} is out of date; run `make clients`\n" for name in stale), end="", file=sys.stderr)
        return int(bool(stale))
    for name in stale:
        (ROOT / name).write_text(generate()[name], encoding="utf-8")
        print(f"wrote {name}")
    return 0


def generate() -> dict[str, str]:
    """Return the text of each generated file by its name."""
    api = read_api()
    return {
        "src/timeloom/client/types.py": write_types(api),
        "src/timeloom/client/operations.py": write_operations(api),
        "web/src/api/schema.ts": write_typescript(api),
    }


def read_api() -> Api:
    """Return the types and operations of this version's OpenAPI document."""
    return read_document(json.loads(build_document(ENDPOINTS)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
