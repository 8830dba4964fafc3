"""The page of an agent that an application has mounted below a prefix, with the application's own sign-in."""

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from playwright.sync_api import Browser, expect

from tests.web.web_harness import PageServer, PageVisit

APPLICATION = """
import asyncio, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route
from timeloom import Agent
from timeloom.server import create_app
from timeloom.server.http_server import listen
from timeloom.testing import ScriptedModel, call, says

model = ScriptedModel([call("react.write", path="page.html", content="<h1>Seven degrees</h1>"), says("It **rains**.")])
agent = Agent(model, store=sys.argv[1])

async def sign_in(request):
    response = RedirectResponse("/inside/agent/", 303)
    response.set_cookie("user", request.path_params["user"], httponly=True, samesite="lax")
    return response

mounted = Mount("/inside/agent", create_app(agent, authenticate=lambda request: request.cookies.get("user")))
app = Starlette(lifespan=agent.lifespan, routes=[Route("/sign-in/{user}", sign_in), mounted])
with listen("127.0.0.1", 0) as listener:
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)).serve([listener]))
"""


@contextmanager
def run_application(folder: Path) -> Generator[PageServer]:
    (folder / "application.py").write_text(APPLICATION)
    command = [sys.executable, str(folder / "application.py"), str(folder / "data")]
    with (folder / "log").open("w") as log, Popen(command, stdout=PIPE, stderr=log, text=True, cwd=folder) as process:
        try:
            assert process.stdout
            address = process.stdout.readline().strip()
            assert address, (folder / "log").read_text()
            yield PageServer(address, "", f"{address}/inside/agent/", process.pid)
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with run_application(tmp_path_factory.mktemp("application")) as running:
        yield running


def test_a_signed_out_person_is_sent_to_the_application_and_then_chats(browser: Browser, server: PageServer) -> None:
    visit = PageVisit(browser, server)
    page = visit.page
    page.goto(server.page)
    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    expect(page.get_by_label("Token")).to_have_count(0)
    page.goto(f"{server.address}/sign-in/ann")
    visit.send_message("How is the weather?")
    expect(page.locator("strong", has_text="rains")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
    assert page.url.startswith(server.page)
    # A document of the agent is shown in a frame, whose address is below the prefix too.
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Seven degrees")).to_be_visible()
    page.reload()
    expect(page.locator("strong", has_text="rains")).to_be_visible()
    visit.close()


def test_another_user_of_the_application_sees_an_empty_page(browser: Browser, server: PageServer) -> None:
    visit = PageVisit(browser, server)
    visit.page.goto(f"{server.address}/sign-in/bob")
    expect(visit.page.get_by_role("textbox", name="Message")).to_be_visible()
    expect(visit.page.get_by_text("How is the weather?")).to_have_count(0)
    visit.close()
