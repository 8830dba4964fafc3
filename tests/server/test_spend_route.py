"""The bill over HTTP: users see their own calls, admins those of all."""

import asyncio
from pathlib import Path

import msgspec

from tests.harness.replies import answers
from tests.server.server_harness import ApiClient, ServerHarness, repeated_reply
from timeloom.server.routes.spend import Bill

SPEND = "/spend/home/demo"


async def bill(client: ApiClient, **query: str | int) -> Bill:
    response = await client.get(SPEND, **query)
    assert response.status_code == 200, response.text
    return msgspec.json.decode(response.content, type=Bill)


def test_the_bill_has_the_calls_of_the_caller_or_for_admins_of_all(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Four."))).serve() as served:
            for client in (served.ann, served.ann, served.client("bob")):
                sent = await client.send_message("Two and two?")
                await client.wait_for_state(str(sent["conversation_id"]), "idle")
            own = await bill(served.ann, by="user,conversation")
            assert {row.user for row in own.rows} == {"ann"}
            assert (len(own.rows), own.total.calls) == (2, sum(row.calls for row in own.rows))
            admin = served.client("admin")
            everyone = await bill(admin, by="user", user="*")
            assert [row.user for row in everyone.rows] == ["ann", "bob"]
            first = await bill(admin, by="user", user="*", limit=1)
            rest = await bill(admin, by="user", user="*", limit=1, cursor=first.cursor)
            assert (*first.rows, *rest.rows) == everyone.rows
            assert (await bill(admin, by="", user="bob", since="2999-01-01")).total.calls == 0
            for query in ({"by": "moon"}, {"since": "yesterday"}, {"by": "day", "cursor": "x"}, {"by": "day,day"}):
                assert (await served.ann.get(SPEND, **query)).status_code == 400, query
            assert (await served.ann.get(SPEND, user="bob")).status_code == 403
            assert (await served.ann.get("/spend/home/other")).status_code in (403, 404)

    asyncio.run(check())
