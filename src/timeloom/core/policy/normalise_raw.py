"""Rewrites the slipped tags of raw channels in a reply, so that the strict reader can read them."""

import re
from typing import Final

import msgspec

from timeloom.core.policy.raw_fields import CODE, NOTES, PARAM_FIELDS
from timeloom.core.policy.vendor_calls import AmbiguousReplyError
from timeloom.core.stream.reply_regions import RAW_KINDS, Region, split_regions


class NormalisedReply(msgspec.Struct, frozen=True):
    """A reply with exact tags around its raw channels, the names of the repairs, and the parameters they concern."""

    text: str
    repairs: frozenset[str] = frozenset()
    params: tuple[str, ...] = ()


def normalise_raw_channels(text: str, edition: int, *, is_cut: bool) -> NormalisedReply:
    """Return the reply with exact tags around its raw channels, which follow its only decision.

    `is_cut` says that the reply reached its length limit, so that the text of an unclosed channel may be incomplete.
    """
    regions = split_regions(text, edition)
    decisions = [one.start for one in regions if one.kind == "decision"]
    pieces: list[str] = []
    moved: list[str] = []
    params: list[str] = []
    repairs: set[str] = set()
    done = 0
    for region in regions:
        is_code = region.kind == "code" and text.startswith(f"<channel:{CODE}>", region.start)
        name = CODE if is_code else RAW_KINDS.get(region.kind)
        if name is None:
            continue
        is_early = len(decisions) == 1 and name not in (NOTES, CODE) and region.start < decisions[0]
        if region.is_exact and region.is_closed and not is_early:
            continue
        written = f"<channel:{name}>{_read_text(region, name, is_cut=is_cut)}</channel:{name}>"
        pieces += [text[done : region.start], "" if is_early else written]
        moved += [written] if is_early else []
        params += [region.text] if name in (*PARAM_FIELDS, CODE) else []
        repairs.add("channel_order" if is_early else "tags")
        done = region.end
    return NormalisedReply("".join([*pieces, text[done:], *moved]), frozenset(repairs), tuple(params))


def _read_text(region: Region, name: str, *, is_cut: bool) -> str:
    """Return the text of a channel with a slip; raise if it may go on after the slip."""
    text = region.text
    if not region.is_closed:
        begun = _CUT_TAG.search(text)
        if begun and f"</channel:{name}>".startswith(begun[0]):
            text = text[: begun.start()]
    if (is_cut and not region.is_closed) or _CHANNEL_TAG.search(text):
        raise AmbiguousReplyError("the end of a channel is not certain")
    return text


_CUT_TAG: Final = re.compile(r"</c[a-z:_]{0,40}\Z")
_CHANNEL_TAG: Final = re.compile(r"<\s*/?\s*channel\b", re.IGNORECASE)
