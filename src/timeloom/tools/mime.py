"""Determines MIME types by file name, from a fixed table so that every machine gives the same answer."""

from types import MappingProxyType
from typing import Final

from timeloom.tools.charsets import BYTE_ORDER_MARKS

UNKNOWN_MIME: Final = "application/octet-stream"

_SNIFFED_BYTES: Final = 8192

SUFFIX_TYPES: Final = MappingProxyType(
    {
        **dict.fromkeys(("md", "markdown"), "text/markdown"),
        **dict.fromkeys(("txt", "text", "log", "cfg", "conf", "ini", "env", "lock", "gitignore"), "text/plain"),
        **dict.fromkeys(("html", "htm"), "text/html"),
        **dict.fromkeys(("yaml", "yml"), "application/yaml"),
        **dict.fromkeys(("js", "mjs", "cjs"), "text/javascript"),
        **dict.fromkeys(("ts", "tsx"), "text/x-typescript"),
        **dict.fromkeys(("sh", "bash"), "text/x-shellscript"),
        **dict.fromkeys(("c", "h"), "text/x-c"),
        **dict.fromkeys(("cpp", "cc", "hpp"), "text/x-c++"),
        **dict.fromkeys(("patch", "diff"), "text/x-diff"),
        **dict.fromkeys(("jpg", "jpeg"), "image/jpeg"),
        **dict.fromkeys(("tif", "tiff"), "image/tiff"),
        "css": "text/css",
        "csv": "text/csv",
        "tsv": "text/tab-separated-values",
        "rst": "text/x-rst",
        "tex": "text/x-tex",
        "py": "text/x-python",
        "jsx": "text/jsx",
        "java": "text/x-java",
        "go": "text/x-go",
        "rs": "text/x-rust",
        "rb": "text/x-ruby",
        "sql": "application/sql",
        "json": "application/json",
        "jsonl": "application/jsonl",
        "ipynb": "application/x-ipynb+json",
        "toml": "application/toml",
        "xml": "application/xml",
        "svg": "image/svg+xml",
        "mmd": "text/vnd.mermaid",
        "png": "image/png",
        "gif": "image/gif",
        "webp": "image/webp",
        "bmp": "image/bmp",
        "ico": "image/x-icon",
        "pdf": "application/pdf",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "doc": "application/msword",
        "ppt": "application/vnd.ms-powerpoint",
        "xls": "application/vnd.ms-excel",
        "zip": "application/zip",
        "gz": "application/gzip",
        "tar": "application/x-tar",
        "parquet": "application/vnd.apache.parquet",
        "sqlite": "application/vnd.sqlite3",
        "mp3": "audio/mpeg",
        "wav": "audio/wav",
        "mp4": "video/mp4",
    }
)
_TEXTUAL: Final = frozenset(
    {
        "application/json",
        "application/jsonl",
        "application/yaml",
        "application/toml",
        "application/xml",
        "application/sql",
        "application/javascript",
        "image/svg+xml",
    }
)


def guess_mime(name: str) -> str:
    """Return the MIME type for the file name's extension; `application/octet-stream` if it is unknown."""
    _, dot, end = name.rpartition(".")
    return SUFFIX_TYPES.get(end.lower(), UNKNOWN_MIME) if dot else UNKNOWN_MIME


def is_textual(mime: str) -> bool:
    """Return whether content of this type is read as text."""
    kind = strip_mime_parameters(mime)
    return kind.startswith("text/") or kind in _TEXTUAL or kind.endswith(("+json", "+xml"))


def is_viewable(mime: str) -> bool:
    """Return whether a model can view content of this type that is not text: an image or a PDF."""
    kind = strip_mime_parameters(mime)
    return kind == "application/pdf" or (kind.startswith("image/") and not is_textual(kind))


def strip_mime_parameters(mime: str) -> str:
    """Return the type without its parameters, in lower case."""
    return mime.partition(";")[0].strip().lower()


def decode_file_text(data: bytes, mime: str) -> str | None:
    """Return the text that the bytes contain; None if they are not text, even if the type claims so.

    Bytes of a non-textual type are treated as text only if the type is unknown and they are valid UTF-8.
    """
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark) and (is_textual(mime) or strip_mime_parameters(mime) == UNKNOWN_MIME):
            return data.decode(encoding, "replace")
    if b"\0" in data[:_SNIFFED_BYTES]:
        return None
    if is_textual(mime):
        return data.decode("utf-8", "replace")
    if strip_mime_parameters(mime) != UNKNOWN_MIME:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
