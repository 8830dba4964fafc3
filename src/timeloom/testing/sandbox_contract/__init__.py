"""The contract of a sandbox, as checks that any project can run on its own sandbox.

1. A program runs to its end. Its output is streamed while it runs; the run returns its exit status and output files.
2. It has two folders, its environment, its inputs and its tools, and starts in a fresh interpreter.
3. It exceeds no limit: the operation fails, or the program is ended and the run names the limit.
4. After a run, however it ended, none of its processes, files or folders remain.
5. Concurrent programs cannot see each other.

A check takes a function that opens a sandbox. With pytest:

    @pytest.mark.parametrize("check", SANDBOX_CONTRACT, ids=lambda check: check.__name__)
    def test_my_sandbox_keeps_the_contract(check: Check) -> None:
        asyncio.run(check(open_my_sandbox))

The contract does not check isolation from the host, which depends on the host; `tests/escape` does.
"""

from collections.abc import Sequence
from typing import Final

from timeloom.testing.sandbox_contract import ending, limits, running
from timeloom.testing.sandbox_contract.fixtures import Check, Open

SANDBOX_CONTRACT: Final[Sequence[Check]] = (
    running.a_sandbox_that_can_isolate_says_so,
    running.what_is_printed_is_heard_and_its_end_is_kept,
    running.what_is_printed_is_heard_while_the_program_runs,
    running.a_program_ends_with_its_exit_code,
    running.an_exception_is_shown_by_the_lines_of_the_program,
    running.a_signal_counts_as_shells_count_it,
    running.a_program_knows_its_folders_and_little_else,
    running.files_that_it_leaves_are_there_until_the_run_is_left,
    running.inputs_are_copies,
    running.a_read_only_input_cannot_be_opened_for_writing,
    running.links_lead_to_folders_beside_them,
    running.an_input_outside_its_folder_is_refused,
    running.tools_are_called_and_awaited,
    running.paths_are_fetched,
    running.an_interpreter_serves_one_program,
    running.programs_at_the_same_time_do_not_meet,
    limits.who_takes_too_long_is_asked_to_end_and_then_ended,
    limits.who_computes_too_long_is_ended,
    limits.who_takes_too_much_memory_is_ended_or_refused,
    limits.many_processes_share_one_limit_of_memory,
    limits.who_prints_too_much_is_ended,
    limits.who_writes_too_much_is_ended,
    limits.who_makes_too_many_files_is_ended,
    limits.files_processes_and_descriptors_are_refused_beyond_their_number,
    ending.a_cancelled_run_leaves_nothing,
    ending.closing_ends_what_runs,
    ending.a_program_s_children_end_with_it,
)

__all__ = ["SANDBOX_CONTRACT", "Check", "Open"]
