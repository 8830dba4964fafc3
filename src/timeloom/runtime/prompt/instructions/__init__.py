"""The system texts, one Markdown file per text and version; `load` reads them."""
