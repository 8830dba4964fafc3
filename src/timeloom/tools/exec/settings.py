"""Settings of the exec tool: what its programs may use, are given and may leave."""

import msgspec

from timeloom.ports.sandbox import MIB, Limits


class ExecSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one program may use, and the bounds of what is brought to it and taken from it.

    Smaller bounds refuse work that people have; larger ones let one program fill memory, disk or prompt.
    """

    limits: Limits = Limits()
    """`wall_s` is how long a program runs unless its call says otherwise."""
    max_timeout_s: float = 600.0
    code_bytes: int = MIB
    contract_files: int = 50
    input_files: int = 500
    input_bytes: int = 256 * MIB
    """What lies in a program's folder when it begins."""
    kept_files: int = 100
    kept_bytes: int = 256 * MIB
    """What of a program's files is kept, those of its contract first."""
    text_bytes: int = 20 * 1024
    """Of a text file, what stands on the timeline."""
    shown_bytes: int = 60 * 1024
    """Of all text files of a call, what a prompt shows; the rest is named."""
    image_bytes: int = 5 * MIB
    pdf_bytes: int = 10 * MIB
    fetch_bytes: int = 4 * MIB
    """The answer to one `fetch_ctx`."""
