"""Changes the code at random places, one at a time, and reports the changes that no test finds.

Each mutant runs in a copy of the repository against the tests that are nearest to the changed module: first those that
import it or mirror it, then, if they all pass, slower and further ones. A mutant whose tests all pass has survived: a
test is missing there, or the change makes no difference. The seed and the count make the same sample again.
"""

import argparse
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from scripts import mutant_alarm
from scripts.mutations import Mutation, compiles, find_mutations
from tests.suites import MARKERS, suite_of

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = "src/timeloom"
COPIED: Final = ("src", "tests", "scripts", "docs", "examples", "pyproject.toml", "README.md")
RESULTS: Final = ROOT / "build" / "mutants.json"

IMPORT: Final = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n]*)|import ([\w.]+))", re.MULTILINE)
NAME: Final = re.compile(r"\w+")

NEAR_FILES: Final = 8
"""Test files that each mutant runs against. More find the same mutants later; fewer leave more to the second run."""
FAR_FILES: Final = 40
"""Further test files for a mutant that the nearest ones did not find."""
NO_TESTS: Final = 5
"""pytest's exit status if all tests were left out."""
TEST_S: Final = 60
"""Seconds after which a single test counts as hanging; a busy machine needs a multiple of what the tests take."""
PYTEST: Final = ("-x", "-q", "-p", "no:cacheprovider", "-m")
QUICK: Final = "not slow and not bench"
SLOW: Final = "slow and not bench"

Verdict = Literal["killed", "hung", "survived", "untested", "unfinished"]
"""`hung` counts as found: the change made a test hang. `untested` means that no test reaches the module, `unfinished`
that the tests passed as far as they got in the time."""

LEFT: Final[tuple[Verdict, ...]] = ("survived", "untested", "unfinished")


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A mutation of one file of the repository."""

    path: str
    mutation: Mutation


class MutantResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a mutant, the number of test files that could find it, and the seconds that this took."""

    mutant: Mutant
    verdict: Verdict
    test_files: int
    seconds: float


class MutantReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a sample; `chosen` is larger than their number if the time was up before."""

    seed: int
    chosen: int
    results: tuple[MutantResult, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sample and print its survivors; return 1 only if they are to fail the run."""
    options = _parse_options(arguments)
    if options.again:
        known = msgspec.json.decode(options.again.read_bytes(), type=MutantReport)
        chosen = [one.mutant for one in known.results if one.verdict in LEFT]
    else:
        chosen = choose_mutants(find_mutants(options.paths), options.count, options.seed)
    if options.list:
        for mutant in chosen:
            print(describe_mutant(mutant))
        return 0
    nearest = NearestTests(ROOT)
    if not options.trust and (failed := run_unchanged(chosen, nearest)):
        print(f"The tests fail without a change, so that no result would mean anything:\n{failed}")
        return 2
    results: list[MutantResult] = []
    print(f"seed {options.seed}: {len(chosen)} mutants, at most {options.minutes:g} minutes", flush=True)
    for result in run_mutants(chosen, nearest, options.jobs, options.minutes * 60, options.timeout):
        results.append(result)
        seconds = f"{result.seconds:5.1f} s"
        print(f"{result.verdict:11}{seconds}  {describe_mutant(result.mutant)}", flush=True)
    report = MutantReport(seed=options.seed, chosen=len(chosen), results=tuple(results))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    print(format_summary(report))
    return int(options.fail and any(one.verdict == "survived" for one in results))


class Options(argparse.Namespace):
    """The options of the command line."""

    count: int
    seed: int
    minutes: float
    timeout: float
    jobs: int
    paths: list[str]
    json: Path
    again: Path | None
    list: bool
    fail: bool
    trust: bool


def _parse_options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=40, help="how many mutants are tried")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="chooses the sample")
    parser.add_argument("--minutes", type=float, default=15, help="no mutant is started after so many minutes")
    parser.add_argument(
        "--timeout", type=float, default=120, help="seconds for the nearest tests; twice as many for more"
    )
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="mutants at a time")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the results are written")
    parser.add_argument("--again", type=Path, help="tries the survivors of that file of results again")
    parser.add_argument("--list", action="store_true", help="prints the sample and runs nothing")
    parser.add_argument("--fail", action="store_true", help="exits with 1 if a mutant survives")
    parser.add_argument("--trust", action="store_true", help="does not run the tests without a change first")
    parser.add_argument(
        "paths", nargs="*", default=["core", "runtime", "stores", "server"], help=f"folders or files of {PACKAGE}"
    )
    return parser.parse_args(arguments, Options())


def find_mutants(paths: Iterable[str], root: Path = ROOT) -> list[Mutant]:
    """Return all mutants of these folders or files of the package."""
    files: set[Path] = set()
    for path in paths:
        place = root / PACKAGE / path
        if not place.exists():
            raise SystemExit(f"{PACKAGE}/{path} does not exist; name folders or files of {PACKAGE}")
        files.update([place] if place.is_file() else place.rglob("*.py"))
    return [
        Mutant(path=file.relative_to(root).as_posix(), mutation=mutation)
        for file in sorted(files)
        for mutation in find_mutations(file.read_bytes())
    ]


def choose_mutants(mutants: Iterable[Mutant], count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """Return a random sample with about as many mutants of each kind, so that rare kinds are tried too."""
    chance = random.Random(seed)
    kinds: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        kinds.setdefault(mutant.mutation.kind, []).append(mutant)
    for kind in kinds.values():
        chance.shuffle(kind)
    waiting = deque(kinds.values())
    chosen: list[Mutant] = []
    while waiting and len(chosen) < count:
        kind = waiting.popleft()
        mutant = kind.pop()
        if compiles(mutant.mutation.apply((root / mutant.path).read_bytes())):
            chosen.append(mutant)
        if kind:
            waiting.append(kind)
    return chosen


class NearestTests:
    """Ranks test files by their distance from a module: imports between them, the same folder, a similar name."""

    def __init__(self, root: Path) -> None:
        files = [*(root / "src").rglob("*.py"), *(root / "tests").rglob("*.py")]
        self._names = {_module_name(root, file): file.relative_to(root).as_posix() for file in files}
        self._importers: dict[str, set[str]] = {}
        for file in files:
            name = _module_name(root, file)
            for imported in _imports(file, self._names):
                self._importers.setdefault(imported, set()).add(name)

    def rank(self, path: str) -> list[str]:
        """Return the quick test files that reach the module, the nearest first."""
        module = next(name for name, file in self._names.items() if file == path)
        scores: dict[str, int] = {}
        for name, distance in self._distances(module).items():
            test = self._names[name]
            if Path(test).name.startswith("test_") and _is_quick(test):
                scores[test] = distance + (0 if _mirrors(test, path) else 2) + (0 if _shares_word(test, path) else 1)
        return sorted(scores, key=lambda test: (scores[test], test))

    def _distances(self, module: str) -> Mapping[str, int]:
        """Return how many imports lie between the module and each module that needs it."""
        found = {module: 0}
        waiting = deque([module])
        while waiting:
            name = waiting.popleft()
            for importer in self._importers.get(name, ()):
                if importer not in found:
                    found[importer] = found[name] + 1
                    waiting.append(importer)
        return found


def _module_name(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(file: Path, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules that the file imports; parsing a thousand files would take longer than trying a mutant."""
    for module, names, whole in IMPORT.findall(file.read_text(encoding="utf-8")):
        yield whole or module
        yield from (name for one in NAME.findall(names) if (name := f"{module}.{one}") in known)


def _is_quick(test: str) -> bool:
    suite = suite_of(test)
    return suite not in MARKERS and suite != "architecture"


def _mirrors(test: str, path: str) -> bool:
    """Whether the test is in the folder of `tests` that mirrors the folder of the module."""
    folder = Path(path).relative_to(PACKAGE).parent.as_posix()
    return test.startswith((f"tests/unit/{folder}/", f"tests/{folder}/"))


def _shares_word(test: str, path: str) -> bool:
    words = Path(path).stem.split("_")
    return any(len(word) > 3 and word[:6] in Path(test).stem for word in words)


def run_unchanged(mutants: Iterable[Mutant], nearest: NearestTests) -> str:
    """Run the nearest tests of all mutants without a change; return pytest's last lines if one fails."""
    tests = sorted({test for mutant in mutants for test in nearest.rank(mutant.path)[:NEAR_FILES]})
    command = [sys.executable, "-m", "pytest", *PYTEST, QUICK, "-n", "auto", *tests]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if ended.returncode in (0, NO_TESTS) else ended.stdout[-3000:]


def run_mutants(
    mutants: Sequence[Mutant], nearest: NearestTests, jobs: int, most_s: float, timeout_s: float
) -> Iterator[MutantResult]:
    """Yield the results in the order in which they are known; no mutant starts after `most_s` seconds."""
    started = time.monotonic()
    waiting = deque(mutants)
    with tempfile.TemporaryDirectory(prefix="mutants_") as folder:

        def work(number: int) -> Iterator[MutantResult]:
            tree = MutantTree(Path(folder) / str(number)) if waiting else None
            while tree and waiting and time.monotonic() - started < most_s:
                yield tree.run(waiting.popleft(), nearest, timeout_s)

        workers = [work(number) for number in range(max(1, min(jobs, len(mutants))))]
        with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
            running = {pool.submit(next, worker, None): worker for worker in workers}
            while running:
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    worker = running.pop(future)
                    if (result := future.result()) is not None:
                        running[pool.submit(next, worker, None)] = worker
                        yield result


class MutantTree:
    """A copy of the repository in which one file at a time is changed."""

    def __init__(self, folder: Path, root: Path = ROOT, test_s: float = TEST_S) -> None:
        self._folder = folder
        self._environ = os.environ | {
            "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}",
            # A mutant of the same second and size would be taken for the file that was compiled before.
            "PYTHONDONTWRITEBYTECODE": "1",
            mutant_alarm.LIMIT_VARIABLE: str(test_s),
        }
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name)
            elif (root / name).exists():
                shutil.copy(root / name, folder / name)

    def run(self, mutant: Mutant, nearest: NearestTests, timeout_s: float) -> MutantResult:
        """Change the file, run tests until one finds the change, and restore the file."""
        tests = nearest.rank(mutant.path)
        started = time.monotonic()
        file = self._folder / mutant.path
        source = file.read_bytes()
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()
        file.write_bytes(mutant.mutation.apply(source))
        try:
            verdict = self._run_stages(tests[:NEAR_FILES], tests[NEAR_FILES:FAR_FILES], timeout_s)
        finally:
            file.write_bytes(source)
        seconds = round(time.monotonic() - started, 1)
        return MutantResult(mutant=mutant, verdict=verdict, test_files=min(len(tests), FAR_FILES), seconds=seconds)

    def _run_stages(self, near: Sequence[str], far: Sequence[str], timeout_s: float) -> Verdict:
        """Run the quick tests of the nearest files, then their slow ones, then further files, until one finds it."""
        verdict: Verdict = "untested"
        for tests, kind, most_s in ((near, QUICK, timeout_s), (near, SLOW, timeout_s), (far, QUICK, timeout_s * 2)):
            found = self._run_tests(tests, kind, most_s)
            if found in ("killed", "hung", "unfinished"):
                return found
            if found == "survived":
                verdict = found
        return verdict

    def _run_tests(self, tests: Sequence[str], kind: str, timeout_s: float) -> Verdict:
        if not tests:
            return "untested"
        command = [sys.executable, "-m", "pytest", "-p", mutant_alarm.__name__, *PYTEST, kind, *tests]
        with subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                status = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "unfinished"
        verdicts: dict[int, Verdict] = {0: "survived", NO_TESTS: "untested", -signal.SIGALRM: "hung"}
        return verdicts.get(status, "killed")


def describe_mutant(mutant: Mutant) -> str:
    """Return the place of the mutant, its kind, and the old and the new text in one line."""
    change = mutant.mutation
    before, after = (" ".join(text.split()) for text in (change.before, change.after))
    where = f"{Path(mutant.path).relative_to(PACKAGE).as_posix()}:{change.line}"
    return f"{where}  {change.kind}: {before[:90]} -> {after[:90]}"


def format_summary(report: MutantReport) -> str:
    """Return the survivors, and how many mutants there were of each verdict."""
    left = [one for one in report.results if one.verdict in LEFT]
    lines = [f"\nNo test found {len(left)} of {len(report.results)} mutants:"] if left else []
    lines += [f"  {one.verdict} {describe_mutant(one.mutant)} ({one.test_files} test files)" for one in left]
    counts = ", ".join(
        f"{sum(one.verdict == verdict for one in report.results)} {verdict}" for verdict in ("killed", "hung", *LEFT)
    )
    missing = report.chosen - len(report.results)
    lines.append(f"\nseed {report.seed}: {counts}" + (f", {missing} not tried in time" if missing else ""))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
