"""Programs run under a uid that belongs to no account."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.local import LocalSandbox, LocalSettings
from timeloom.sandbox.unused_uid import find_unused_uid
from timeloom.testing.sandbox_contract.fixtures import OutputRecorder, TableBroker, program


def test_the_number_is_no_users_and_no_groups() -> None:
    number = find_unused_uid()
    with pytest.raises(KeyError):
        pwd.getpwuid(number)
    with pytest.raises(KeyError):
        grp.getgrgid(number)


def test_where_every_number_has_an_account_no_program_runs() -> None:
    with pytest.raises(SandboxUnavailableError, match="belongs to an account"):
        find_unused_uid([range(1)])


def test_a_number_that_this_process_cannot_become_is_passed_over(tmp_path: Path) -> None:
    few = tmp_path / "uid_map"
    few.write_text("         0          0      65536\n")
    assert find_unused_uid(id_maps=[few]) < 65536


def test_a_number_that_is_in_use_elsewhere_is_passed_over() -> None:
    first = find_unused_uid()
    assert find_unused_uid(excluded=frozenset({first})) not in (first, 0)


@pytest.mark.anyio
async def test_a_program_sees_itself_as_1001_and_is_nobody_here(tmp_path: Path) -> None:
    sandbox = LocalSandbox(LocalSettings(folder=tmp_path / "runs", warm=0))
    heard = OutputRecorder()
    code = "import os\nopen(OUT_DIR / 'a', 'w').close()\nprint(os.getuid())"
    try:
        async with sandbox.run(program(code), TableBroker(), heard) as ran:
            owner = (ran.out_dir / "a").stat().st_uid
    finally:
        await sandbox.close()
    assert heard.stdout == "1001\n"
    assert owner == (find_unused_uid() if os.geteuid() == 0 else os.geteuid())
