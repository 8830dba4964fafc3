"""Ports: the protocols that adapters implement for the runtime.

Reading order: `store`, which consists of `journal`, `importer`, `eraser`, `chain`, `leases`, `reader`, `feedback`,
`spend`, `blobs`, `snapshots`, `ledger` and `records` (with `typed_records`); `model` with `reply_pieces`; `tool`,
`sandbox`, `bundle_context` (what a bundle's code may read), `web` (searching and reading pages), `signer`, `clock`,
`ids`.
"""
