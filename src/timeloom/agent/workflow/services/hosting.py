"""The hosting service of a workflow: addresses of the conversation's files."""

from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.runtime.read.files import FileInfo, get_artifact_url, open_file, parse_file_path


class HostingService:
    """Gives files of the conversation addresses; the server checks who may open them."""

    def __init__(self, parts: WorkflowParts) -> None:
        self._parts = parts

    def get_artifact_url(self, path: str) -> str:
        """Return the URL of a file such as `fi:t1.outputs/report.pdf`; the file need not exist.

        It is relative if the address of the server is unknown, as in scripts. Raises `PathError` for other paths.
        """
        session = self._parts.session
        file = parse_file_path(path, session.views)
        return get_artifact_url(str(file), session.caller, session.conversation, self._parts.base_url)

    async def find_file(self, path: str) -> FileInfo:
        """Return the type, size, resource name and relative URL of a downloadable file; raises `path_not_found`."""
        parts = self._parts
        await parts.session.flush()
        info = await parts.store.info(parts.session.conversation)
        file = await open_file(parts.store, info, path, parts.settings.workspaces)
        await file.close()
        return file.info
