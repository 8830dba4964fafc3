"""Harness for hostile content: payloads that must not run, and another origin that must receive no request."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from threading import Thread
from typing import cast

import msgspec

from tests.web.web_harness import PageVisit
from timeloom.core.blocks import AnyBlock, TurnEnded, Unknown
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Draft, to_entry
from timeloom.testing.samples import SAMPLE_BLOCKS, TS
from timeloom.wire.record import decode_record, encode_record

IMAGE = "<img src=x onerror=window.hit=1>"


class CanaryServer:
    """A server of another origin that records requests; there must be none."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        asked = self.requests

        class RecordingHandler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(204)
                self.end_headers()

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), RecordingHandler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def payloads(canary: str) -> list[str]:
    return [
        "<script>window.hit=1</script>",
        f'<script src="{canary}/script.js"></script>',
        '<img src="/x" onerror="window.hit=1">',
        f"<img src={canary}/img.png>",
        f"![pixel]({canary}/pixel.png)",
        f"![pixel][ref]\n\n[ref]: {canary}/ref.png",
        "<svg onload=window.hit=1></svg>",
        "<svg><animate onbegin=window.hit=1 attributeName=x dur=1s>",
        '<iframe srcdoc="<script>parent.hit=1</script>"></iframe>',
        f"<iframe src={canary}/frame></iframe>",
        f'<object data="{canary}/object"></object><embed src="{canary}/embed">',
        f'<link rel=stylesheet href="{canary}/style.css"><style>@import "{canary}/import.css";</style>',
        f'<meta http-equiv=refresh content="0;url={canary}/refresh"><base href="{canary}/">',
        f'<form action="{canary}/form"><button>send</button></form>',
        "[link](javascript:window.hit=1)",
        "[link](JaVaScRiPt:window.hit=1)",
        "[link](java&#x09;script:window.hit=1)",
        "[link](data:text/html,<script>parent.hit=1</script>)",
        "[link](vbscript:window.hit=1)",
        '[link](https://example.org/" onmouseover="window.hit=1)',
        '[link](https://example.org "title\\" onmouseover=\\"window.hit=1")',
        "<javascript:window.hit=1>",
        "&lt;script&gt;window.hit=1&lt;/script&gt;",
        '```"><img src=x onerror=window.hit=1>\ncode\n```',
        "```html\n<script>window.hit=1</script>\n```",
        "```constructor\ncode\n```\n\n```__proto__\ncode\n```",
        "`<img src=x onerror=window.hit=1>`",
        "| <img src=x onerror=window.hit=1> |\n|---|\n| <script>window.hit=1</script> |",
        "$\\href{javascript:window.hit=1}{x}$ $\\htmlData{x=y}{z}$ $\\includegraphics{" + canary + "/tex.png}$",
        '$</annotation><img src=x onerror="window.hit=1">$',
        "$$\\text{<img src=x onerror=window.hit=1>}$$",
        '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.hit=1&gt;">',
        "<math><annotation-xml encoding='text/html'><script>window.hit=1</script></annotation-xml></math>",
        "<noscript><p title='</noscript><img src=x onerror=window.hit=1>'>",
        "<template><script>window.hit=1</script></template>",
        "<details open ontoggle=window.hit=1>x</details>",
        "<a href='#' id='root' name='body'>clobber</a>",
        "</textarea></title></style><script>window.hit=1</script>",
        "[[S:1]] [[S:<img src=x onerror=window.hit=1>]] [\\[1\\]](javascript:window.hit=1)",
        "<div style=\"background:url('" + canary + "/style.png')\">x</div>",
        "- [ ] <input autofocus onfocus=window.hit=1>",
        "\u202e<script>window.hit=1</script>\u0000",
    ]


def short_payload(canary: str) -> str:
    """Return a payload on one line, usable as a title or a step."""
    return f"{IMAGE}<script>window.hit=1</script> ![x]({canary}/short.png) [x](javascript:window.hit=1)"


def hostile_message(canary: str) -> str:
    return "\n\n".join(f"{text}\n\nafter{n}" for n, text in enumerate(payloads(canary)))


OWN_NAMES = ("__proto__", "constructor", "hasOwnProperty", "toString", "__defineGetter__", "valueOf")
"""Property names that every JavaScript object inherits."""

KEPT = {"tool_call_id", "artifact_path", "covered_turn_ids", "json"}
"""Fields that stay unchanged, so that related blocks are shown together."""


def hostile_blocks(canary: str) -> list[AnyBlock]:
    """Return a block of every class with a hostile payload in every free-form string."""
    texts = cycle(payloads(canary))
    own = [Unknown(json=json.dumps({"type": name, "text": IMAGE}), foreign_type=name) for name in (IMAGE, *OWN_NAMES)]
    failed = TurnEnded(reason="provider_error", text=short_payload(canary))
    return [*(_inject_payloads(block, texts) for block in SAMPLE_BLOCKS), *own, failed]


def _inject_payloads(block: AnyBlock, texts: Iterator[str]) -> AnyBlock:
    for steps in list(_string_paths(block)):
        for text in (next(texts), IMAGE, json.dumps({IMAGE: [IMAGE], "path": IMAGE})):
            try:
                spoiled = cast(AnyBlock, _replace_at(block, steps, text))
                record = encode_record(to_entry(Draft(TurnId("turn_1"), TS, spoiled), 2))
            except (CodedError, msgspec.MsgspecError, ValueError):
                continue
            if decode_record(record, 2).block == spoiled:
                block = spoiled
                break
    return block


Steps = tuple[str | int, ...]


def _string_paths(value: object, steps: Steps = ()) -> Iterator[Steps]:
    """Yield the path to each string within the value."""
    if isinstance(value, str):
        yield steps
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if name not in KEPT:
                yield from _string_paths(getattr(value, name), (*steps, name))
    elif isinstance(value, tuple):
        for at, one in enumerate(cast(tuple[object, ...], value)):
            yield from _string_paths(one, (*steps, at))
    elif isinstance(value, dict):
        for key, one in cast(dict[str, object], value).items():
            yield from _string_paths(one, (*steps, key))


def _replace_at(value: object, steps: Steps, text: str) -> object:
    """Return the value with the text inserted at the path."""
    if not steps:
        return text
    step, *rest = steps
    if isinstance(value, msgspec.Struct):
        name = str(step)
        return msgspec.structs.replace(value, **{name: _replace_at(getattr(value, name), tuple(rest), text)})
    if isinstance(value, tuple):
        row = cast(tuple[object, ...], value)
        return tuple(_replace_at(one, tuple(rest), text) if at == step else one for at, one in enumerate(row))
    table = cast(dict[str, object], value)
    return {key: _replace_at(one, tuple(rest), text) if key == step else one for key, one in table.items()}


FIND_ACTIVE_CONTENT = """() => [...document.querySelectorAll("*")].flatMap((element) => [
    ...[...element.attributes].filter((one) => one.name.startsWith("on")).map((one) => one.name),
    ...(/^(SCRIPT|IFRAME|OBJECT|EMBED|FORM|STYLE|LINK|META|BASE|IMG)$/.test(element.tagName)
        && element.closest(".message-list, .panel, .list, .card") ? [element.tagName] : []),
    ...(element.tagName === "A" && element.closest(".message-list, .panel, .card")
        && !/^(https?|mailto):/.test(element.href) ? [element.href] : []),
])"""


def check_harmless(visit: PageVisit, canary: CanaryServer) -> None:
    """Assert that no payload has run, can run or has sent a request to another origin."""
    assert visit.page.evaluate(FIND_ACTIVE_CONTENT) == []
    assert visit.page.evaluate("window.hit") is None
    assert canary.requests == []
    assert len(visit.context.pages) == 1


def frame_document(canary: str) -> str:
    """A document that tries all it can from inside its frame, and says when it is done."""
    return f"""<!doctype html><body><img src="{canary}/f.png"><link rel=stylesheet href="{canary}/f.css">
<script src="{canary}/f.js"></script><iframe src="{canary}/f.html"></iframe>
<form id=f action="{canary}/form" method=post></form><a id=a href="{canary}/top" target=_top>x</a>
<link rel=prefetch href="{canary}/prefetch"><link rel=preconnect href="{canary}">
<script>
const said = [];
const tries = {{
  fetch: () => fetch("{canary}/fetch").catch(() => 0),
  own: () => fetch("/me").catch(() => 0),
  beacon: () => navigator.sendBeacon("{canary}/beacon"),
  socket: () => new WebSocket("{canary.replace("http", "ws")}/socket"),
  events: () => new EventSource("{canary}/events"),
  cookie: () => {{ if (document.cookie) parent.hit = 1; said.push("cookie"); }},
  parent: () => {{ parent.document.body.remove(); }},
  hit: () => {{ parent.hit = 1; top.hit = 1; }},
  top: () => {{ top.location = "{canary}/top"; }},
  opener: () => window.open("{canary}/open"),
  storage: () => localStorage.getItem("x"),
  form: () => f.submit(),
  link: () => a.click(),
  picture: () => {{ new Image().src = "{canary}/image"; }},
  worker: () => new Worker("{canary}/worker.js"),
  rtc: () => {{ if (window.RTCPeerConnection) said.push("rtc"); }},
}};
for (const [name, attempt] of Object.entries(tries)) try {{ attempt(); }} catch (error) {{ said.push("no " + name); }}
parent.postMessage("tried everything: " + said.join(", "), "*");
setTimeout(() => {{ location = "{canary}/navigate"; }}, 100);
</script>"""
