"""Requests with a field that their route does not know are refused, so that a misspelt one is not silently ignored."""

import msgspec
import pytest

from timeloom.server.endpoints import ENDPOINTS, WEBSOCKET_ENDPOINTS
from timeloom.server.protocols.client_message import CallDecision
from timeloom.server.protocols.socketio import JoinRequest
from timeloom.server.protocols.websocket import ClientFrame

OPEN_ROUTES = ("/ag-ui", "/v1/chat/completions")
"""Their formats are others', whose clients send more fields than timeloom uses."""

OWN_ROUTES = [one for one in ENDPOINTS if one.path not in OPEN_ROUTES]
BODIES = {one.body_type for one in OWN_ROUTES if one.body_type}
QUERIES = {one.query_type for one in (*OWN_ROUTES, *WEBSOCKET_ENDPOINTS) if one.query_type}
FRAMES: set[type[object]] = {ClientFrame, CallDecision, JoinRequest}
KINDS = {kind.__name__: kind for kind in BODIES | QUERIES | FRAMES}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_field_that_the_route_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `other`"):
        msgspec.convert({"other": 1}, KINDS[name])


def test_formats_of_others_may_have_further_fields() -> None:
    kinds = [one.body_type for one in ENDPOINTS if one.path in OPEN_ROUTES and one.body_type]
    assert len(kinds) == len(OPEN_ROUTES)
    for kind in kinds:
        with pytest.raises(msgspec.ValidationError, match="required field"):
            msgspec.convert({"other": 1}, kind)
