"""Registry of all error and notice codes, each with the sentence that documents it."""

from types import MappingProxyType
from typing import Final

CODES: Final = MappingProxyType(
    {
        # blocks and entries
        "block_malformed": "A block has a field that is empty, out of range or of the wrong shape.",
        "entry_malformed": "An entry has a seq below 1, a malformed turn id, or a time that is not RFC 3339 in UTC.",
        "entry_unknown": "The conversation has no block with this seq or path, or no such turn.",
        "turn_open": "The turn has not ended. Wait for its end before you fork at it or erase parts of it.",
        "approval_unknown": "No call waits for approval, or not the call that was named.",
        # paths
        "path_malformed": "The path has no known form; its message names the forms that exist.",
        "path_escapes_root": "The path would leave its folder: absolute, `..`, a backslash, NUL or one of these in disguise.",
        "path_too_long": "The path, or one name in it, is longer than file systems take.",
        "path_symlink": "A part of the path is a symbolic link; links are never followed.",
        "path_name_unsafe": "A name holds invisible or control characters, ends with a dot or space, or is a device's.",
        "path_not_a_file": "Only `fi:` paths name files; the path given names something else.",
        "path_not_regular": "The path names a folder, pipe, socket or device, or a file with more than one hard link.",
        "path_read_only": "The path names what a user sent; tools read it and do not write there.",
        "rn_malformed": "The text is no resource name of a file; the message says how one is written.",
        "range_too_large": "A range of source ids names more ids, or larger ones, than one request may.",
        "path_not_found": "Nothing has this path: neither on the timeline, nor in the sources pool, nor in OUT_DIR.",
        "file_too_large": "A file is larger than a tool reads, writes or shows; the message says how large one may be.",
        "workspace_failed": "The disk under OUT_DIR refused to read or write: full, read-only or failing.",
        # faults in the model's reply (a notice, then another try)
        "protocol_violation.path_rewritten": "A path of another turn was rewritten into the current turn.",
        "protocol_violation.param_ref_not_visible": "A `ref:` parameter names something that is not visible.",
        "protocol_violation.channel_unclosed": "A channel was ended by the next open tag or by the end of the stream.",
        "protocol_violation.text_outside_channels": "Text stood outside every channel; it was kept and not shown.",
        "protocol_violation.undeclared_channel": "A channel that is not declared was opened; its text was kept, not shown.",
        "protocol_violation.decision_malformed": "The decision was not one JSON object of the expected shape.",
        "protocol_violation.decision_missing": "The reply has no decision.",
        "protocol_violation.code_missing": "A call runs code, and the reply has no code channel.",
        "protocol_violation.code_without_exec": "The reply has code that no call of it runs.",
        "protocol_violation.several_actions": "The reply has several actions where a round has one.",
        "protocol_violation.fanout_refused": "The actions of the reply may not share a round.",
        "protocol_violation.last_round": "The reply calls a tool in the turn's last round, which must answer.",
        "repeated_call": "A call had the same result three times in one turn. After four times it is not run again.",
        # sources and citations
        "source_unknown": "A citation names a source id that is not in the pool; the mark was left as it is.",
        "source_malformed": "A source row has a field of the wrong type or size; the message names the field.",
        "source_not_eligible": "Only `text/*`, `image/*` and `application/pdf` enter the sources pool.",
        # patches
        "patch_malformed": "The patch is neither a unified diff nor a replacement; its message names the line.",
        "patch_no_match": "The lines that a hunk expects are not in the file near the place it names.",
        "patch_ambiguous": "A hunk fits at more than one place; give more context lines.",
        "patch_applied": "The lines that a hunk adds stand in the file already; to add them again, give the lines above and below.",
        "patch_overlap": "Two hunks share lines of the file, or stand in another order than these.",
        "patch_several_files": "The patch changes more than one file where one is expected.",
        "patch_line_numbers": "The patch contains pasted line-number prefixes, which are display only.",
        "patch_too_large": "The patch or the file is larger than a patch may be.",
        # plans
        "plan_unknown": "No plan has this id; its message lists the open ones.",
        "plan_not_open": "The plan is closed, superseded or complete.",
        "plan_malformed": "A plan has 1 to 50 non-empty steps and a known mode.",
        "plan_ack_in_lifecycle_round": "A round that changes a plan's lifecycle marks no steps; repeat the marks next round.",
        "plan_step_unknown": "A mark names a step that the current plan does not have; the other marks count.",
        # the store
        "conflict": "Another writer appended first. Load the new entries and decide again.",
        "conversation_unknown": "No conversation has this id.",
        "conversation_exists": "A conversation with this id exists already.",
        "store_format_unknown": "A newer version of timeloom wrote the data folder. Use that version or a newer one.",
        "store_damaged": "A file of the store cannot be read; the message names its conversation.",
        "blob_missing": "A payload is missing in the blob folder.",
        "blob_damaged": "The bytes of a payload do not match the hash in its name.",
        "entry_damaged": "A stored entry cannot be decoded.",
        "chain_broken": "An entry was changed, moved or replaced after it was stored; the message names the first such entry.",
        "journal_truncated": "Entries whose hash was written at a turn's end are missing: the journal was cut, replaced by an older copy, or lost its write-ahead log.",
        "signature_invalid": "A head is not signed, or its signature does not match the public key.",
        "seq_gap": "The seqs of a conversation's entries have a gap.",
        "store_locked": "Another process locked the store for longer than the waiting time.",
        "store_missing": "The named folder contains no store.",
        "store_unwritable": "The disk refused a write because it is full, read-only or failing. The append was not acknowledged.",
        "store_closed": "The store was closed before the request was finished.",
        "rendering_other": "Another version of the rendering code made the request, so its bytes cannot be reproduced here.",
        "replay_differs": "A model request, rebuilt from the log, does not have the hash that was recorded when it was sent.",
        "cache_differs": "A model call recorded cache points or lifetimes that differ from those computed from the log.",
        "block_lost": "A block is hidden from prompts, and no visible text leads back to it within two reads.",
        "conversation_held": "Another process holds the conversation's lease; the message names it and the start time. The lease ends when that process closes the conversation or exits.",
        "lease_lost": "The conversation was released, taken over or deleted since it was opened here. Open it again.",
        "cursor_malformed": "The cursor is not one that a previous page returned.",
        "attachment_refused": "The file cannot be attached: it is missing, not a regular file, too large, or not text.",
        "attachment_type_unavailable": "Files of this type cannot be attached; only text files can.",
        # the server
        "unauthorized": "The request has no token, or an unknown one.",
        "forbidden": "The token does not permit this request.",
        "route_unknown": "No route has this address and method.",
        "request_malformed": "The request does not have the form that this route expects; the message names the expected form.",
        "range_unsatisfiable": "The requested range is outside the file; the message gives the file's size in bytes.",
        "request_too_large": "The request body is larger than this server accepts.",
        "request_timeout": "The request body did not arrive in time.",
        "answer_missing": "The turn ended without an answer; the message gives the reason.",
        "rate_limited": "Too many requests or concurrent streams. Retry after the time in Retry-After.",
        "reruns_busy": "The maximum number of re-runs is active; the message names their owners and how to raise the limit.",
        "host_unknown": "The Host header does not name this server.",
        "turn_not_running": "No turn is running that could be stopped or cancelled.",
        "reader_too_slow": "The client read the stream too slowly, so the server closed it. Reconnect with the id of the last block.",
        "server_closing": "The server is shutting down. Running turns are saved and resume at its next start.",
        "internal_error": "An unexpected error occurred; the server's log has the details.",
        # settings
        "setting_unknown": "The settings file has an unknown key; the message names the closest setting.",
        "setting_invalid": "A setting has an invalid value, or its file may not set it; the message names the place and the fix.",
        "config_unreadable": "A file of settings, instructions or keys is missing, too large, not UTF-8 or malformed; the message names it.",
        # budgets
        "budget_spent": "A budget has too little left for the call; the message names the scope, the limit and the amount spent.",
        "budget_busy": "A budget is so close to its limit that calls wait for each other, and the calls in flight did not end in time.",
        "reservation_malformed": "A reservation has an amount out of range, no key, or a scope that is malformed or named twice.",
        # models
        "model_overloaded": "The model provider is overloaded. Retry later.",
        "model_rate_limited": "The model provider's rate limit is reached. Retry after the time that it states.",
        "model_unavailable": "The model provider asks to wait longer than timeloom waits. Send another message after that time.",
        "model_unreachable": "The model provider cannot be reached. Check its address and the network.",
        "model_context_too_long": "The prompt exceeds the model's context window. Shorten it.",
        "model_timeout": "The model provider did not answer in time.",
        "model_cut": "The reply was cut off; the text received so far is kept as an interrupted attempt.",
        "model_refused": "The model provider refused to answer this prompt.",
        "model_unauthorized": "The model provider rejected the API key. Set the key that belongs to this provider.",
        "model_invalid": "The model provider rejected the request as invalid, or sent a reply that timeloom cannot read.",
        "model_unknown": "The model name is unknown; the message lists the accepted forms.",
        "model_not_installed": "The packages of the local model are not installed; the message gives the install command.",
        "script_malformed": "A script of the scripted model is malformed; the message names the line.",
        # tools
        "tool_call_error": "A tool could not be called; its message says why.",
        "tool_result_error": "A tool's result is missing or unusable.",
        "gate_refused": "A policy or a budget forbids the call; its message says which and why.",
        "call_not_approved": "A person refused the call, or the turn ended or changed course before a decision.",
        "sandbox_unavailable": "Programs cannot be isolated here, so none is run; the message says what to install.",
        "tool_timeout": "A tool did not finish before its deadline and was cancelled.",
        "tool_interrupted": "A call was stopped from outside before its tool had finished; whether it had an effect is unknown.",
        "call_cut": "The conversation was forked while the call was under way, or in the middle of its result; it is not run in the fork.",
        "call_not_recorded": "In a re-run the call is none that was recorded, or what was recorded does not fit there; it was not run.",
        "unknown_tool": "No tool that may be called here has this id; its message names the nearest ones.",
        "tool_params_invalid": "A parameter of a call is missing, unknown or of another type; its message says which and what is expected.",
        "tool_result_too_large": "A tool left more than is kept; the rest was left out.",
        "tool_malformed": "A tool cannot be registered: its id, signature or docstring does not have the form of one, or its id is taken.",
        "tool_call_error.missing_assets": "Files that the content mentions could not be found.",
        "tool_call_warning.missing_sources": "Sources that the content cites are not in the pool.",
        "react.write.hosting_failed": "A written file could not be hosted.",
        "missing_artifact": "A file of the contract was not produced.",
        "execution_failed": "A program ended with an error, or by a signal; the message says what it said last.",
        "call_limit": "A program has made as many calls of tools, or sent and got as many bytes in them, as it may; the call was not made.",
        "execution_limit": "A program went over one of its limits and was ended; the message says which, and what to do.",
        "hide_not_visible": "Nothing at the path is in sight, so there is nothing to hide.",
        "hide_before_cache": "The block lies before the pre-tail cache point and cannot be hidden.",
    }
)


class CodedError(ValueError):
    """Error whose `code` is a key of `CODES`; its message names the received and the expected value."""

    def __init__(self, code: str, message: str) -> None:
        if code not in CODES:
            raise KeyError(f"{code!r} is not in core/codes.py")
        super().__init__(message)
        self.code = code
