"""The react tools: reading, writing, searching, planning and hiding on the conversation's own timeline and files."""
