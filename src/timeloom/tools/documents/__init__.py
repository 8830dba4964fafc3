"""The document tools: they render PDF, DOCX, PPTX and PNG in a sandbox.

Reading order: `tools` (the tools), `citations` (marks and cited sources), `references` (the files that a document
names), `renderer` (one run in the sandbox), `guest/` (the program that runs there).
"""
