"""The one registry of notice and error codes, each with the sentence that documents it."""

from types import MappingProxyType
from typing import Final

CODES: Final = MappingProxyType(
    {
        # blocks and entries
        "block_malformed": "A block was made with a field that is empty, out of range or of another shape.",
        "entry_malformed": "An entry has a seq below 1, a turn id of another shape, or a time that is not RFC 3339 in UTC.",
        "entry_unknown": "A conversation has no block with that seq or path, or no such turn.",
        "turn_open": "A turn that has not ended cannot be forked at, and nothing of it can be erased.",
        "approval_unknown": "Nothing waits for a person's decision, or not the call that was named.",
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
        # what the model wrote (issue of a notice, then another try)
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
        # sources and citations
        "source_unknown": "A citation names a source id that is not in the pool; the mark was left as it is.",
        "source_malformed": "A source row has a field of the wrong type or size; the message names the field.",
        "source_not_eligible": "Only `text/*`, `image/*` and `application/pdf` enter the sources pool.",
        # patches
        "patch_malformed": "The patch is neither a unified diff nor a replacement; its message names the line.",
        "patch_no_match": "The lines that a hunk expects are not in the file near the place it names.",
        "patch_ambiguous": "A hunk fits at more than one place; give more context lines.",
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
        "conflict": "Another writer appended first; load the new tail and decide again.",
        "conversation_unknown": "No conversation has this id.",
        "conversation_exists": "A conversation with this id exists already.",
        "store_format_unknown": "The data folder was written by a newer timeloom; use that version or newer.",
        "store_damaged": "A file of the store cannot be read; the message names the conversation it belongs to.",
        "blob_missing": "A payload is not in the blob folder.",
        "blob_damaged": "A payload's bytes do not have the hash of their name.",
        "entry_damaged": "A stored entry does not decode.",
        "seq_gap": "A conversation's entries are not numbered densely.",
        "store_locked": "Another process holds the store longer than the wait allows.",
        "store_missing": "There is no store in the folder that was named.",
        "store_unwritable": "The disk refused a write: full, read-only or failing. Nothing of the append was acknowledged.",
        "store_closed": "The store was closed before the request came to its end.",
        "rendering_other": "A request was made by another version of the rendering, so that its bytes cannot be made again here.",
        "replay_differs": "A model call's request, made again from the log, does not have the hash that was recorded when it was sent.",
        "cache_differs": "The cache points that a model call recorded, or their lifetimes, are others than those that the log gives.",
        "block_lost": "A block went out of sight, and nothing that is in sight leads back to it within two reads.",
        "conversation_held": "Somebody else holds the conversation; the message says who and since when. It is free once they close it or their process ends.",
        "lease_lost": "The conversation was released, taken over or deleted since it was opened here; open it again.",
        "cursor_malformed": "A list was asked to go on from a cursor that no page has given.",
        "attachment_refused": "A file cannot be attached: it is missing, no plain file, too large, or no text.",
        "attachment_type_unavailable": "A file of this type cannot be attached here: only text can, for now.",
        # the server
        "unauthorized": "The request has no token, or one that is not known here.",
        "forbidden": "The token is known and may not do this.",
        "route_unknown": "There is nothing at this address, or not with this method.",
        "request_malformed": "The request is not what this route takes; the message says what was expected.",
        "range_unsatisfiable": "No byte of the file is in the range that was asked for; the message says how many it has.",
        "request_too_large": "The body is larger than this server takes.",
        "request_timeout": "The body of the request did not arrive in time.",
        "answer_missing": "The turn ended without an answer; the message says why.",
        "rate_limited": "Too many requests, or streams at once; Retry-After says when to try again.",
        "reruns_busy": "As many re-runs are under way as may be; the message says whose, and how to have more.",
        "host_unknown": "The request names a host that is not this server.",
        "turn_not_running": "No turn is running that could be stopped or cancelled.",
        "reader_too_slow": "A stream told more than its reader took and was ended; come back with the id of the last block.",
        "server_closing": "The server is closing: turns that run are kept and gone on with at its next start.",
        "internal_error": "Something failed that should not have; the server's log says what.",
        # settings
        "setting_unknown": "The file of settings has a key that is no setting; its message names the nearest one.",
        "setting_invalid": "A setting has a value that cannot be taken; its message says where it stands, what was got and what is expected.",
        "config_unreadable": "The file of settings, or of instructions, is missing, too large, not UTF-8 or not TOML; its message says where.",
        # budgets
        "budget_spent": "A budget has nothing left for the call; the message names the scope, the limit and what is spent.",
        "budget_busy": "A budget is so near its limit that calls wait for each other, and those in flight did not end in time.",
        "reservation_malformed": "A reservation has an amount out of range, no key, or a scope that is named twice or has not the form of one.",
        # models
        "model_overloaded": "The model's service is overloaded; the call is worth another try later.",
        "model_rate_limited": "The model's service takes no more calls for now; wait as long as it says.",
        "model_unreachable": "The model's service cannot be reached; check its address and the network.",
        "model_context_too_long": "The prompt is longer than the model takes; a shorter one may pass.",
        "model_timeout": "The model's service did not answer in time.",
        "model_cut": "The reply ended before its end; what had come is kept as an interrupted attempt.",
        "model_refused": "The model's service refused to answer this prompt.",
        "model_unauthorized": "The model's service does not accept the key; set the one that belongs to it.",
        "model_invalid": "The model's service did not understand the request, or we not its answer.",
        "model_unknown": "The name is that of no model; its message says which forms there are.",
        "model_not_installed": "The local model's packages are not installed; the message says what installs them.",
        "script_malformed": "A script of the scripted model is not what it should be; the message names the line.",
        # tools
        "tool_call_error": "A tool could not be called; its message says why.",
        "tool_result_error": "A tool's result is missing or unusable.",
        "gate_refused": "A policy or a budget forbids the call; its message says which and why.",
        "call_not_approved": "A person refused the call, or nobody decided before the turn took another course.",
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
    """An error of the registry: `code` is its key, the message says what was got and what was expected."""

    def __init__(self, code: str, message: str) -> None:
        if code not in CODES:
            raise KeyError(f"{code!r} is not in core/codes.py")
        super().__init__(message)
        self.code = code
