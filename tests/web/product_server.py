"""A program that serves the page with forms, and with channels and widgets given as JSON in the environment."""

import argparse
import asyncio
import os
from pathlib import Path

import msgspec

from timeloom.bundles.bundle import BundleWidget
from timeloom.config.load import gather_sources, load_settings
from timeloom.core.stream.declared import DeclaredChannel
from timeloom.server import serve
from timeloom.tools.react.form import form


async def main() -> None:
    options = argparse.ArgumentParser()
    for name in ("--data-dir", "--port", "--model"):
        options.add_argument(name)
    given = options.parse_args()
    settings = load_settings(gather_sources({})).settings
    settings = msgspec.structs.replace(
        settings,
        data_dir=Path(given.data_dir),
        model=given.model,
        server=msgspec.structs.replace(settings.server, port=int(given.port)),
    )
    channels = msgspec.json.decode(os.environ.get("CHANNELS", "[]"), type=list[DeclaredChannel])
    documents = msgspec.json.decode(os.environ.get("WIDGETS", "{}"), type=dict[str, str])
    widgets = {("", name): BundleWidget(html=html, title=f"The {name}") for name, html in documents.items()}
    async with serve(settings, tools=[form], channels=channels, widgets=widgets) as server:
        for line in (f"serving on {server.url}", f"token: {server.token}", f"page: {server.url}/?token={server.token}"):
            print(line, flush=True)
        server.shut_down_on_signals()
        await server.wait()


asyncio.run(main())
