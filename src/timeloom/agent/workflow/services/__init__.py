"""Services of a workflow: `conversation_store` (records, stored conversations), `hosting` (files), `context_client`."""
