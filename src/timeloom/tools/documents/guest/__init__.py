"""The renderer of documents. It runs in a sandbox and imports nothing of timeloom but this folder.

Reading order: `render` (the entry), `job` (what to draw, and the warnings), `markdown` (parsing), `markup` (HTML that
keeps no scripts), `assets` (the only files that exist for a document), `fonts`, `pages` (PDF), `pictures` (PNG),
`blocks` (Markdown as blocks), `word` (DOCX), `slides` (PPTX).
"""
