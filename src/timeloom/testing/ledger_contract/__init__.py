"""The contract of a store's ledger, as checks that any project can run on its own store.

A check takes a function that opens the store under test. The store is empty at the start of a check; each call opens
the same store again. With pytest:

    @pytest.mark.parametrize("check", LEDGER_CONTRACT, ids=lambda check: check.__name__)
    def test_my_ledger_keeps_the_contract(check: Check, tmp_path: Path) -> None:
        asyncio.run(check(lambda: MyStore.open(tmp_path)))

`LEDGER_CONTRACT` applies to every store. `DURABLE_LEDGER_CONTRACT` applies also to stores that outlive their process
and may be open twice.
"""

from collections.abc import Sequence
from typing import Final

from timeloom.testing.ledger_contract import accounts, crowds, sharing
from timeloom.testing.store_contract.fixtures import Check, Open

LEDGER_CONTRACT: Final[Sequence[Check]] = (
    accounts.a_reservation_is_granted_in_all_scopes_or_in_none,
    accounts.what_is_settled_counts_once,
    accounts.every_measure_has_a_limit_of_its_own,
    accounts.what_is_released_is_given_back,
    accounts.a_key_is_reserved_once,
    accounts.a_scope_without_a_limit_is_counted,
    accounts.the_first_call_of_a_scope_is_made_by_itself,
    accounts.calls_in_flight_fit_under_the_limit_together_or_there_is_one,
    accounts.the_largest_call_of_a_scope_counts_where_less_was_said,
    accounts.a_call_of_unknown_cost_is_made_by_itself,
    accounts.a_call_is_held_up_only_by_what_it_takes,
    accounts.rounds_and_tool_calls_are_never_overspent,
    accounts.sums_stop_where_numbers_end,
    accounts.a_deleted_conversation_leaves_only_what_others_share,
    crowds.who_waits_is_let_through_when_another_settles,
    crowds.who_waits_too_long_is_told_why,
    crowds.who_gives_up_holds_nothing,
    crowds.a_hundred_conversations_of_a_tree_overspend_by_less_than_one_call,
    crowds.a_hundred_conversations_of_a_tree_take_too_long_by_less_than_one_call,
    crowds.a_hundred_conversations_spend_no_more_tool_calls_than_there_are,
    crowds.calls_that_cost_more_than_they_said_overspend_by_less_than_one_call_where_they_cost_alike,
    sharing.a_closed_store_has_no_ledger,
)

DURABLE_LEDGER_CONTRACT: Final[Sequence[Check]] = (
    sharing.what_was_settled_is_there_after_opening_again,
    sharing.two_stores_of_one_place_have_one_ledger,
    sharing.a_dead_one_s_call_is_promised_and_not_in_flight,
    sharing.what_a_dead_one_reserved_is_settled_by_who_takes_over,
)

__all__ = ["DURABLE_LEDGER_CONTRACT", "LEDGER_CONTRACT", "Check", "Open"]
