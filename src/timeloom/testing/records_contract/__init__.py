"""The contract of a store's records, as checks that any project can run on its own store.

A check takes a function that opens the store under test. The store is empty at the start of a check; each call opens
the same store again. With pytest:

    @pytest.mark.parametrize("check", RECORDS_CONTRACT, ids=lambda check: check.__name__)
    def test_my_records_keep_the_contract(check: Check, tmp_path: Path) -> None:
        asyncio.run(check(lambda: MyStore.open(tmp_path)))

`RECORDS_CONTRACT` applies to every store. `DURABLE_RECORDS_CONTRACT` applies also to stores that outlive their process
and may be open twice. Reading order: `versions`, `lists`, `owners`, `reopening`.
"""

from collections.abc import Sequence
from typing import Final

from timeloom.testing.records_contract import lists, owners, reopening, versions
from timeloom.testing.store_contract.fixtures import Check, Open

RECORDS_CONTRACT: Final[Sequence[Check]] = (
    versions.a_record_is_created_once,
    versions.a_record_is_replaced_at_its_version_only,
    versions.a_record_is_deleted_at_its_version_only,
    versions.a_version_is_never_used_twice,
    versions.a_write_without_an_expected_version_always_succeeds,
    versions.of_many_who_change_one_version_one_wins,
    versions.the_revision_of_a_kind_grows_with_each_change,
    versions.a_value_is_a_json_object_of_bounded_size,
    versions.a_malformed_address_is_refused,
    versions.a_record_is_absent_from_its_expiry_on,
    versions.writes_with_an_expiry_remove_expired_records,
    lists.records_are_listed_by_kind_owner_and_key,
    lists.a_prefix_selects_keys,
    lists.paging_shows_each_record_once_while_others_change,
    lists.a_list_refuses_a_cursor_that_it_did_not_return,
    owners.records_of_different_owners_are_separate,
    owners.the_records_of_a_user_are_erased,
    owners.the_records_of_a_tenant_are_erased,
    owners.erasing_needs_a_name,
    reopening.a_closed_store_has_no_records,
)

DURABLE_RECORDS_CONTRACT: Final[Sequence[Check]] = (
    reopening.records_are_there_after_opening_again,
    reopening.two_stores_of_one_folder_share_records,
    reopening.of_many_stores_that_count_none_is_lost,
)

__all__ = ["DURABLE_RECORDS_CONTRACT", "RECORDS_CONTRACT", "Check", "Open"]
