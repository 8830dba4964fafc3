"""Signing in and out: where a browser's token is accepted, and which pages can send one."""

import re
from html import unescape
from pathlib import Path

import httpx2
import pytest

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, RunningServer, ServerHarness, repeated_reply, run
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.server.rate_limit import RateLimits

PERSON = {"sec-fetch-site": "none"}


def a_local_server(folder: Path) -> ServerHarness:
    stage = ServerHarness(folder, repeated_reply(answers("Done.")))
    stage.rules = AccessPolicy(is_local=True)
    return stage


async def who(served: RunningServer) -> str:
    """Return the user that the browser is signed in as; empty if it is not."""
    return (await served.http.get("/me")).json().get("user", "")


async def submit(served: RunningServer, token: str, **headers: str) -> httpx2.Response:
    """Submit the form of a page."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await served.http.post("/login", data={"token": token}, headers=sent)


def test_a_script_signs_in_and_out_with_json(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            own = {"origin": served.url, "sec-fetch-site": "same-origin"}
            said = await served.http.post("/login", json={"token": "ann"}, headers=own)
            assert (said.status_code, said.content) == (204, b"")
            assert "HttpOnly" in said.headers["set-cookie"] and "SameSite=strict" in said.headers["set-cookie"]
            assert await who(served) == "ann"
            # A browser sends the cookie along with requests of every page; this server refuses those of others.
            foreign = await served.http.post(CHAT, json={"message": "x"}, headers={"origin": "http://evil.example"})
            assert (foreign.status_code, foreign.json()["code"]) == (403, "forbidden")
            assert (await served.http.post(CHAT, json={"message": "x"}, headers=own)).status_code == 202
            assert (await served.http.post("/logout", headers=own)).status_code == 204
            assert await who(served) == ""

    run(check)


def test_a_form_signs_in_and_leads_to_the_page(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            said = await submit(served, "ann", origin=served.url)
            assert (said.status_code, said.headers["location"]) == (303, "/")
            assert await who(served) == "ann"

    run(check)


def test_a_wrong_token_is_refused_and_sets_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path)
        stage.limits = RateLimits(failures_per_minute=3)
        async with stage.serve() as served:
            said = await served.http.post("/login", json={"token": "guess"})
            assert (said.status_code, said.json()["code"]) == (401, "unauthorized")
            assert "set-cookie" not in said.headers
            for token in ("guess", "", "guess"):
                form = await submit(served, token, origin=served.url)
                assert (form.status_code, form.headers["location"]) == (303, "/#refused")
                assert "set-cookie" not in form.headers
            assert (await served.http.post("/login", json={"token": "guess"})).status_code == 429
            # A valid token works although its address has used up its failures.
            assert (await served.http.post("/login", json={"token": "ann"})).status_code == 204
            metrics = (await served.client("operator").get("/metrics")).text
            assert 'timeloom_errors_total{code="unauthorized",where="request"} 3.0' in metrics

    run(check)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "null"},
        {"origin": "null", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
        # A browser of before 2020, which reports nothing.
        {},
    ],
)
@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_a_form_of_another_page_signs_nobody_in_or_out(tmp_path: Path, path: str, headers: dict[str, str]) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            await served.http.post("/login", json={"token": "bob"})
            refused = await served.http.post(path, data={"token": "ann"}, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            if headers:
                refused = await served.http.post(path, json={"token": "ann"}, headers=headers)
                assert refused.status_code == 403
            assert await who(served) == "bob"

    run(check)


def test_a_page_without_referrers_submits_its_form(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            said = await submit(served, "ann", origin="null", sec_fetch_site="same-origin")
            assert (said.status_code, await who(served)) == (303, "ann")

    run(check)


def test_a_token_in_an_address_is_a_credential_at_the_page_of_a_local_server_only(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_local_server(tmp_path / "local").serve() as served:
            for path in ("/ready", "/me", LIST, "/openapi.json", "/icon.svg"):
                said = await served.http.get(path, params={"token": "ann"}, headers=PERSON)
                assert "set-cookie" not in said.headers
                assert said.status_code == (401 if path in ("/me", LIST) else 200)
            assert (await served.http.post(f"{CHAT}?token=ann", json={"message": "x"})).status_code == 401
            said = await served.http.get("/", params={"token": "ann", "x": "1"}, headers=PERSON)
            assert (said.status_code, said.headers["location"], await who(served)) == (303, "/?x=1", "ann")
        async with ServerHarness(tmp_path / "other").serve() as served:
            said = await served.http.get("/", params={"token": "ann"}, headers=PERSON)
            assert (said.status_code, said.headers["location"], await who(served)) == (303, "/", "")

    run(check)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
def test_a_link_of_another_site_signs_nobody_in(tmp_path: Path, site: str) -> None:
    async def check() -> None:
        async with a_local_server(tmp_path).serve() as served:
            said = await served.http.get("/", params={"token": "ann"}, headers={"sec-fetch-site": site})
            assert (said.status_code, said.headers["location"], await who(served)) == (303, "/", "")
            said = await served.http.head("/", params={"token": "ann"}, headers=PERSON)
            assert (said.headers["location"], await who(served)) == ("/", "")

    run(check)


def test_a_wrong_token_in_the_address_leads_to_the_login(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_local_server(tmp_path).serve() as served:
            said = await served.http.get("/", params={"token": "guess"}, headers=PERSON)
            assert (said.status_code, said.headers["location"], await who(served)) == (303, "/#refused", "")

    run(check)


def test_an_address_asks_before_it_replaces_another_user(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_local_server(tmp_path).serve() as served:
            await served.http.get("/", params={"token": "bob"}, headers=PERSON)
            asked = await served.http.get("/", params={"token": "ann"}, headers=PERSON)
            assert (asked.status_code, await who(served)) == (200, "bob")
            text = unescape(asked.text)
            assert "<strong>bob</strong> (user of home/demo)" in text
            assert "<strong>ann</strong> (user of home/demo)" in text
            assert "form-action 'self'" in asked.headers["content-security-policy"]
            assert asked.headers["referrer-policy"] == "strict-origin"
            (token,) = re.findall(r'name="token" value="([^"]*)"', asked.text)
            await submit(served, token, origin=served.url, sec_fetch_site="same-origin")
            assert await who(served) == "ann"
            # The same user again is no question.
            again = await served.http.get("/", params={"token": "ann"}, headers=PERSON)
            assert again.status_code == 303

    run(check)


def test_a_browser_that_does_not_say_where_a_link_was_is_asked(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_local_server(tmp_path).serve() as served:
            asked = await served.http.get("/", params={"token": "ann"})
            assert (asked.status_code, await who(served)) == (200, "")
            assert "signs you in as <strong>ann</strong>" in asked.text
            assert "You are signed in" not in asked.text

    run(check)


def test_two_servers_of_a_machine_do_not_log_each_other_out(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path / "one").serve() as one, ServerHarness(tmp_path / "two").serve() as two:
            # A browser sends the cookies of a host to all of its ports, and this client is one.
            for served, token in ((one, "ann"), (two, "bob")):
                await one.http.post(f"{served.url}/login", json={"token": token})
            for served, user in ((one, "ann"), (two, "bob")):
                assert (await one.http.get(f"{served.url}/me")).json()["user"] == user

    run(check)
