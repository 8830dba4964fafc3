"""Finds `[[S:1]]` tokens in text and replaces them with links to their sources.

Reading order: `tokens` (the grammar), `formats` (how a citation is written), `rewriter` (the public class). `html`,
`document` and `markdown/` find citations in HTML, in whole documents and in streamed Markdown.
"""
