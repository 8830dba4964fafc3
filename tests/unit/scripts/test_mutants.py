"""`make mutants`: a sample that a seed repeats, the nearest tests first, and survivors that are reported."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from scripts import mutants
from scripts.mutants import Mutant, MutantReport, MutantResult, MutantTree, NearestTests, Verdict
from scripts.mutations import Mutation, find_mutations
from tests.harness.repository import ROOT

MODULE = "def is_adult(age):\n    return age >= 18\n"
STRICT = "from timeloom.ages import is_adult\n\n\ndef test_a():\n    assert is_adult(18)\n"
LAX = "from timeloom.ages import is_adult\n\n\ndef test_a():\n    assert is_adult(40)\n"
SLEEPY = "import time\nfrom timeloom.ages import is_adult\n\n\ndef test_a():\n    is_adult(18) or time.sleep(600)\n"
VERDICTS: tuple[Verdict, ...] = ("killed", "survived")
SETTINGS = """
[tool.pytest.ini_options]
addopts = "-p no:schemathesis -p no:hypothesispytest -p no:xdist -p no:cov -p no:anyio -p no:timeloom"
markers = ["slow", "bench"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one module and a test file for it."""
    folder = tmp_path / "root"
    for name in ("src/timeloom", "tests/unit"):
        (folder / name).mkdir(parents=True)
    (folder / "src/timeloom/__init__.py").touch()
    (folder / "src/timeloom/ages.py").write_text(MODULE)
    (folder / "pyproject.toml").write_text(SETTINGS)
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/mutant_alarm.py", folder / "scripts")
    return folder


@pytest.fixture(scope="module")
def nearest() -> NearestTests:
    return NearestTests(ROOT)


def run_mutant(root: Path, after: str, test: str, timeout_s: float = 120, test_s: float = 60) -> MutantResult:
    (root / "tests/unit/test_ages.py").write_text(test)
    mutation = next(one for one in find_mutations(MODULE.encode()) if one.after == after)
    mutant = Mutant(path="src/timeloom/ages.py", mutation=mutation)
    return MutantTree(root.parent / "tree", root, test_s).run(mutant, NearestTests(root), timeout_s)


def test_a_mutant_that_a_test_finds_is_killed(root: Path) -> None:
    assert run_mutant(root, "(age > 18)", STRICT).verdict == "killed"


def test_a_mutant_that_no_test_finds_survives_and_the_file_is_restored(root: Path) -> None:
    result = run_mutant(root, "(age > 18)", LAX)
    assert (result.verdict, result.test_files) == ("survived", 1)
    assert (root.parent / "tree/src/timeloom/ages.py").read_text() == MODULE


def test_a_slow_test_finds_a_mutant_that_the_quick_ones_do_not(root: Path) -> None:
    slow = STRICT.replace("def test_a", "@pytest.mark.slow\ndef test_b")
    assert run_mutant(root, "(age > 18)", f"import pytest\n{LAX}\n{slow}").verdict == "killed"


def test_a_mutant_that_makes_a_test_hang_ends(root: Path) -> None:
    assert run_mutant(root, "(age > 18)", SLEEPY, test_s=0.5).verdict == "hung"


def test_tests_that_take_too_long_prove_nothing(root: Path) -> None:
    assert run_mutant(root, "(age > 18)", SLEEPY, timeout_s=1).verdict == "unfinished"


def test_a_module_that_no_test_reaches_is_untested(root: Path) -> None:
    assert run_mutant(root, "(19)", "def test_a():\n    pass\n").verdict == "untested"


def test_the_same_seed_chooses_the_same_sample_with_mutants_of_all_kinds() -> None:
    known = mutants.find_mutants(["runtime/turn"])
    chosen = mutants.choose_mutants(known, 30, seed=7)
    assert chosen == mutants.choose_mutants(known, 30, seed=7)
    assert chosen != mutants.choose_mutants(known, 30, seed=8)
    assert {one.mutation.kind for one in chosen} == {one.mutation.kind for one in known}


def test_a_sample_is_not_larger_than_what_there_is() -> None:
    known = mutants.find_mutants(["runtime/governance/costs.py"])
    assert sorted(map(mutants.describe_mutant, mutants.choose_mutants(known, 10_000, seed=1))) == sorted(
        map(mutants.describe_mutant, known)
    )


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("src/timeloom/core/policy/pruning.py", "tests/unit/core/policy/test_pruning.py"),
        ("src/timeloom/runtime/hub/state.py", "tests/unit/runtime/hub/test_state.py"),
        ("src/timeloom/server/authorize.py", "tests/server/test_authorization_matrix.py"),
    ],
)
def test_the_nearest_tests_are_those_of_the_module(path: str, test: str, nearest: NearestTests) -> None:
    near = nearest.rank(path)[: mutants.NEAR_FILES]
    assert test in near
    assert not any(name.startswith(("tests/crash", "tests/e2e", "tests/architecture")) for name in near)


def test_an_unknown_folder_is_an_error_that_names_it() -> None:
    with pytest.raises(SystemExit, match="src/timeloom/nowhere does not exist"):
        mutants.find_mutants(["nowhere"])


def test_the_list_shows_the_sample_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutants.main(["--list", "--count", "3", "--seed", "1", "core/tokens.py"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["core/tokens.py"] * 3


def test_a_summary_names_the_survivors_and_what_was_not_tried() -> None:
    mutation = Mutation(kind="constant", line=4, start=0, end=1, before="7", after="(8)")
    mutant = Mutant(path="src/timeloom/core/tokens.py", mutation=mutation)
    results = tuple(MutantResult(mutant=mutant, verdict=verdict, test_files=2, seconds=1.0) for verdict in VERDICTS)
    text = mutants.format_summary(MutantReport(seed=5, chosen=3, results=results))
    assert "No test found 1 of 2 mutants:\n  survived core/tokens.py:4  constant: 7 -> (8) (2 test files)" in text
    assert "seed 5: 1 killed, 0 hung, 1 survived, 0 untested, 0 unfinished, 1 not tried in time" in text


def test_a_report_is_read_again(tmp_path: Path) -> None:
    report = MutantReport(seed=5, chosen=0, results=())
    (tmp_path / "again.json").write_bytes(msgspec.json.encode(report))
    out = tmp_path / "out.json"
    assert mutants.main(["--again", str(tmp_path / "again.json"), "--json", str(out), "--trust"]) == 0
    assert json.loads(out.read_bytes())["results"] == []
