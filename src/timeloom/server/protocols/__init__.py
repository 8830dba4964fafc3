"""Other protocols for the same conversations.

Reading order: `turn_answer`, `send_and_stream`, `client_message`, `websocket`, `socketio`, `engineio_sessions` (its
transport), `openai/`, `ag_ui/`.
"""
