"""Serialization: blocks as JSON, journal records, snapshots and exports.

Reading order: `block_json` with `layouts`, `block_schema` (the types of blocks for JSON Schema), `record`, `snapshot`,
`timeline_json` (exports), `chain` (hashes of entries), `heads`, `exported_chain` (checks an export), `linked_entries`
and `archive` (data to import).
"""
