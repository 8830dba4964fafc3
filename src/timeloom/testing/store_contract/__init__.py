"""The contract of a store, as checks that any project can run on its own store.

A check takes a function that opens the store under test. The store is empty at the start of a check; each call opens
the same store again. With pytest:

    @pytest.mark.parametrize("check", STORE_CONTRACT, ids=lambda check: check.__name__)
    def test_my_store_keeps_the_contract(check: Check, tmp_path: Path) -> None:
        asyncio.run(check(lambda: MyStore.open(tmp_path)))

`STORE_CONTRACT` applies to every store. `DURABLE_CONTRACT` applies also to stores that outlive their process and may be
open twice.
"""

from collections.abc import Sequence
from typing import Final

from timeloom.testing.store_contract import (
    chain,
    erasing,
    feedback,
    follow,
    importing,
    journal,
    keeping,
    leases,
    payloads,
    reader,
    spending,
)
from timeloom.testing.store_contract.fixtures import Check, Open

STORE_CONTRACT: Final[Sequence[Check]] = (
    journal.appended_entries_are_numbered_from_one_and_load_as_returned,
    journal.a_wrong_tail_is_a_conflict_and_changes_nothing,
    journal.the_first_entry_and_no_other_is_the_header,
    journal.of_many_who_append_at_one_tail_one_wins,
    journal.writers_of_many_conversations_do_not_disturb_each_other,
    journal.text_that_has_no_utf8_form_is_refused_whole,
    payloads.bytes_and_large_text_come_back_as_references,
    payloads.what_a_block_was_read_from_is_a_payload_too,
    payloads.equal_payloads_of_a_tenant_are_stored_once,
    payloads.a_stored_payload_can_be_referred_to_again_within_its_tenant_only,
    payloads.tenants_of_any_name_are_kept_apart,
    payloads.a_payload_is_read_in_parts,
    reader.a_part_of_a_conversation_loads,
    reader.what_is_unknown_is_said_to_be,
    reader.the_list_says_what_the_entries_say,
    reader.conversations_are_listed_by_tenant_project_and_user_newest_first,
    reader.those_who_look_after_the_place_see_every_conversation,
    reader.idle_conversations_are_found_by_the_time_of_their_last_entry,
    reader.a_turn_is_open_from_its_start_to_its_own_end,
    reader.conversations_with_an_open_turn_are_known,
    reader.open_turns_of_a_project_are_listed,
    reader.paging_shows_each_conversation_once_while_others_are_added,
    reader.a_list_refuses_a_cursor_that_it_did_not_give,
    reader.conversations_are_found_by_the_words_that_were_said,
    reader.messages_are_found_by_any_of_their_words,
    feedback.of_a_turn_the_newest_word_of_a_person_is_counted,
    feedback.feedback_is_found_by_whose_it_is_and_when_it_was_given,
    feedback.paging_shows_each_judged_conversation_once,
    feedback.feedback_that_a_fork_copied_or_that_was_deleted_is_not_counted,
    feedback.feedback_that_was_erased_is_not_counted,
    spending.costs_are_summed_by_day_user_model_and_conversation,
    spending.a_bill_comes_in_pages_with_the_total_of_all,
    spending.a_fork_copies_no_costs_and_a_delete_keeps_them_without_the_conversation,
    follow.a_follower_gets_what_is_there_and_each_new_entry_once_in_order,
    follow.following_ends_when_the_conversation_is_deleted,
    follow.following_ends_when_the_store_closes,
    journal.a_deleted_conversation_is_gone_with_the_payloads_that_only_it_used,
    journal.a_deleted_name_can_be_used_again,
    erasing.an_erased_entry_keeps_its_place_and_says_nothing,
    erasing.a_payload_that_something_refers_to_outlives_an_erase,
    erasing.nothing_but_the_erased_form_takes_the_place_of_an_entry,
    erasing.an_erase_is_refused_where_an_append_is,
    erasing.snapshots_do_not_outlive_an_erase,
    chain.each_entry_carries_the_hash_of_the_one_before_it,
    chain.an_erase_keeps_the_chain_and_no_hash_of_the_content,
    chain.a_copied_conversation_has_a_chain_of_its_own,
    importing.an_imported_conversation_has_the_hashes_of_the_original,
    importing.an_import_that_fails_leaves_nothing,
    importing.an_import_refuses_what_exists_or_does_not_fit,
    leases.a_conversation_has_one_holder_at_a_time,
    leases.a_conversation_can_be_held_from_its_first_entry_on,
    leases.what_is_held_takes_appends_with_its_lease_only,
    leases.a_lease_that_is_over_changes_nothing,
    leases.a_lease_does_not_outlive_its_conversation,
    leases.of_many_who_acquire_at_once_one_has_it,
    leases.who_gives_up_while_acquiring_holds_nothing,
    keeping.the_newest_snapshot_of_a_version_comes_back,
    keeping.a_snapshot_ahead_of_the_tail_is_not_given,
    keeping.a_closed_store_says_so,
    keeping.appends_that_were_accepted_before_a_close_are_finished,
)

DURABLE_CONTRACT: Final[Sequence[Check]] = (
    keeping.everything_is_there_after_opening_again,
    keeping.two_stores_of_one_place_are_one,
    keeping.of_many_stores_that_append_at_one_tail_one_wins,
    erasing.what_was_erased_stays_so_after_opening_again,
    leases.closing_a_store_ends_its_leases,
    leases.what_a_holder_left_behind_is_free_without_a_lease_too,
)

__all__ = ["DURABLE_CONTRACT", "STORE_CONTRACT", "Check", "Open"]
