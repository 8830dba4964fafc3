"""A program that searches everything it can read for planted values, and calls a tool of a bundle."""

SEARCH = """
import glob, os

needles = [bytes.fromhex(one) for one in {needles!r}]


def look(place, data):
    for number, needle in enumerate(needles):
        if needle in data:
            print("FOUND needle", number, "in", place)


def read(place):
    try:
        with open(place, "rb") as file:
            return file.read(4_000_000)
    except OSError:
        return b""


answers = [{calls}]
print("answers", answers)
look("an answer", repr(answers).encode())
look("the environment", repr(dict(os.environ)).encode())
for name in ("environ", "cmdline", "maps", "mountinfo"):
    for place in glob.glob(f"/proc/[0-9]*/{{name}}"):
        look(place, read(place))
searched = 0
for root in ("/workspace", "/tmp", "/var/tmp", "/run", "/dev/shm", "/home", "/root", "/etc", str(OUT_DIR), os.getcwd()):
    for folder, _, files in os.walk(root):
        for name in files:
            searched += 1
            look(os.path.join(folder, name), os.path.join(folder, name).encode() + read(os.path.join(folder, name)))
print("searched", searched > 0)
"""


def search_program(calls: str, *planted: str) -> str:
    """Return the program; `calls` are its calls of tools as Python expressions, separated by commas."""
    return SEARCH.format(needles=[one.encode().hex() for one in planted], calls=calls)
