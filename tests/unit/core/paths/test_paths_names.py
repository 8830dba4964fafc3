"""Names that would leave their folder are refused in every disguise; the names people use are not."""

import pytest

from timeloom.core.paths import MAX_NAME_BYTES, FilePath, PathError, parse

TAGS_OF_ENGLAND = "\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067"
"""The letters gbeng as tag characters, which the flag has after U+1F3F4 and before U+E007F."""

ESCAPES = [
    "/etc/passwd",
    "//server/share",
    "..",
    ".",
    "../x",
    "a/../../x",
    "a/./b",
    "a/..",
    "...",
    ".. /x",
    " ..",
    ". .",
    "a\\b",
    "..\\x",
    "\\\\server\\share",
    "C:/x",
    "c:x",
    "a/C:x",
    "C：x",
    "a\0b",
    "%2e%2e/x",
    "%2E%2e",
    "%2e",
    ".%2e",
    "..%2fx",
    "a%2fb",
    "a%5Cb",
    "a%00b",
    "%252e%252e",
    "%25252e%25252e",
    "%%32%65%%32%65",
    "%u002e%u002e",
    "a%u2215b",
    "a%uff0fb",
    "％2e％2e",
    "%ef%bc%8f",
    "%e2%88%95",
    "a%c0%afb",
    "%c0%ae%c0%ae",
    "a%c1%9cb",
    "a%c0%2fb",
    "a%c0%6fb",
    "a%e0%80%afb",
    "a%f0%80%80%afb",
    "a%f8%80%80%80%afb",
    "a%fc%80%80%80%80%afb",
    "a%25c0%25afb",
    "%ff..%ff",
    "%80",
    "..\u1680",
    "\u00a0..",
    "a／b",
    "a＼b",
    "a﹨b",
    "a∕b",
    "a⁄b",
    "a⧸b",
    "a∖b",
    "℀",
    "℅ x",
    "․․",
    "‥",
    "…",
    "．．",
    "﹒﹒",
    ".．",
    "%43:x",
    "%" + "25" * 20 + "2e",
]


@pytest.mark.parametrize("rel", ESCAPES)
def test_a_disguised_way_out_is_refused(rel: str) -> None:
    for text in (f"fi:turn_1.files/{rel}", f"fi:turn_1.user.attachments/{rel}", f"ks:{rel}", f"sk:{rel}"):
        with pytest.raises(PathError) as refused:
            parse(text)
        assert refused.value.code == "path_escapes_root", text


@pytest.mark.parametrize(
    "name",
    [
        "a\nb",
        "a\tb",
        "a\x7fb",
        "a\x85b",
        "a%0Ab",
        "a\u2028b",
        "a\u2029b",
        "\ud800",
        "a\udcffb",
        "a%ud800",
        "\u202egpj.exe",
        "a\u2066b",
        "a\u200bb",
        "a\u200db",
        "\u200d",
        "é\u200c",
        "a\ufeffb",
        "a\u00adb",
        "a%E2%80%AEb",
        "\u3164",
        "\u115f",
        "\u1160",
        "\uffa0",
        "\u2800",
        "\u2800 \u2800",
        ".\u2800",
        "\ufe0f",
        "\ufe0f\u200d\ufe0f",
        "\u180b\u2800",
        "%E2%A0%80",
        "a.txt\u2800",
        "\U0001d159",
        "\U000e0041",
        "🏴\U000e007f",
        f"🏴{TAGS_OF_ENGLAND}",
        f"🏴{TAGS_OF_ENGLAND}.png",
        f"🏴{TAGS_OF_ENGLAND}\U000e007f\U000e007f",
        f"🏴{TAGS_OF_ENGLAND}{TAGS_OF_ENGLAND}\U000e007f",
        f"🏳{TAGS_OF_ENGLAND}\U000e007f",
        f"a{TAGS_OF_ENGLAND}\U000e007f",
        f"{TAGS_OF_ENGLAND}\U000e007f",
        "🏴\U000e0041\U000e0042\U000e0043\U000e007f",
        "🏴\U000e0061\U000e0020\U000e0061\U000e007f",
        "\ue000",
        "name.",
        "name ",
        "name. .",
        "name%20",
        "name\u3000",
        "name\u1680",
        "name．",
        "%２e%2e",
        "CON",
        "nul",
        "aux.txt",
        "Com1.log",
        "COM¹",
        "lpt9 .x",
        "conin$",
        "prn:",
        "%43ON",
    ],
)
def test_a_name_that_systems_or_readers_take_for_another_is_refused(name: str) -> None:
    for rel in (name, f"a/{name}/b"):
        with pytest.raises(PathError) as refused:
            parse(f"fi:turn_1.files/{rel}")
        assert refused.value.code == "path_name_unsafe"


@pytest.mark.parametrize(
    "rel",
    [
        "output.csv",
        "Final report (2).v1.2.pdf",
        ".env",
        "..hidden",
        "a..b",
        "a/..b/c",
        "~$report.docx",
        "-rf",
        "log 2026-02-09T03:15:49Z.txt",
        "ab:c",
        "100%.txt",
        "100%",
        "50% off.txt",
        "100%accurate.txt",
        "50%de rabais.pdf",
        "report%20final.pdf",
        "caf%C3%A9.txt",
        "caf%E9.txt",
        "sch%F6n.txt",
        "50%25.txt",
        "Отчёт за май.docx",
        "報告書（最終）．pdf",
        "レポート・ノート.txt",
        "دليل_المستخدم.pdf",
        "می\u200cخواهم.txt",
        "👨\u200d👩\u200d👧 family.png",
        "❤\ufe0f.svg",
        f"🏴{TAGS_OF_ENGLAND}\U000e007f.png",
        f"🏴{TAGS_OF_ENGLAND}\U000e007f",
        f"🏴{TAGS_OF_ENGLAND}\U000e007f🏴\U000e0075\U000e0073\U000e0063\U000e0061\U000e007f flags",
        "🏴%F3%A0%81%A7%F3%A0%81%A2%F3%A0%81%A5%F3%A0%81%AE%F3%A0%81%A7%F3%A0%81%BF",
        "🏴\u200d☠\ufe0f",
        "⠃⠗⠇\u2800⠞⠑⠭⠞.brf",
        "\u0301",
        "e\u0301te\u0301.txt",
        "½ cup.txt",
        "Kapitel … Ende.md",
        "L'été à l'étranger & co.txt",
        "console.log",
        "auxiliary",
        "com10",
        "node_modules/@scope/pkg/index.d.ts",
    ],
)
def test_an_ordinary_name_is_kept_as_it_was_written(rel: str) -> None:
    path = parse(f"fi:turn_1.files/{rel}")
    assert isinstance(path, FilePath)
    assert path.rel == rel


def test_a_name_has_as_many_bytes_as_file_systems_take() -> None:
    longest = "é" * (MAX_NAME_BYTES // 2) + "a"
    assert str(parse(f"ks:{longest}")) == f"ks:{longest}"
    for too_long in (longest + "a", "\ud800" * 86):
        with pytest.raises(PathError) as refused:
            parse(f"ks:{too_long}")
        assert refused.value.code == "path_too_long"


def test_a_separator_in_a_single_name_is_refused() -> None:
    with pytest.raises(PathError) as refused:
        parse("fi:turn_1.user.attachments/folder/menu.pdf")
    assert refused.value.code == "path_escapes_root"
