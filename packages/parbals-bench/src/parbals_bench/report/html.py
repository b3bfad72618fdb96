"""Self-contained HTML: one file that loads nothing and runs no script."""

from html import escape

__all__ = ["whole_page"]


def whole_page(title: str, css: str, body: str) -> str:
    """The document around ``body``, which is HTML already; the title is escaped here."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{escape(title)}</title>
<style>
{css}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""
