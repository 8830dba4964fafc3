"""Models on Amazon Bedrock over its Converse API: `model`, `request`, `reply`, `event_stream`, `access`.

Needs the extra `bedrock`. `botocore` signs requests, finds credentials and reads the frames of the event stream.
"""
