"""Incremental parsers of a model's reply; their result does not depend on how the stream was cut into pieces.

Reading order: `channels` (the reply), `json_fields` and `decision` (the decision channel), `raw_text` (channels that
hold one field), `declared` (channels of an agent), `live_reply` (text shown to clients), `surrogates`; for repairs
`reply_regions` and `lenient_json`. `citations` re-exports `CitationRewriter`.
"""
