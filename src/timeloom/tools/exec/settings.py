"""Limits of the exec tool."""

import msgspec

from timeloom.ports.sandbox import MIB, ExecutionLimits


class ExecSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of one program, and the limits of its inputs and outputs.

    Smaller limits refuse real work; larger ones let one program fill memory, disk or prompt.
    """

    limits: ExecutionLimits = ExecutionLimits()
    """`wall_s` is the run time limit if the call gives none."""
    max_timeout_s: float = 600.0
    code_bytes: int = MIB
    contract_files: int = 50
    input_files: int = 500
    input_bytes: int = 256 * MIB
    """Total size of the input files of a program."""
    kept_files: int = 100
    kept_bytes: int = 256 * MIB
    """Total size of the kept files, those of the contract first."""
    text_bytes: int = 20 * 1024
    """Part of a text file that goes on the timeline."""
    shown_bytes: int = 60 * 1024
    """Total text of a call's files that a prompt shows; the rest is shown as stubs."""
    image_bytes: int = 5 * MIB
    pdf_bytes: int = 10 * MIB
    fetch_bytes: int = 4 * MIB
    """Largest answer to one `fetch_ctx`."""
