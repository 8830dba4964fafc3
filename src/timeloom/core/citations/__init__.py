"""Citations: finds `[[S:1]]` tokens in text and replaces them with links to their sources.

Reading order: `tokens` (the grammar), `formats` (how a citation is written), `rewriter` (the public class), `html`
and `document` (finders for HTML and whole documents), `markdown/` (the finder for streamed Markdown).
"""
