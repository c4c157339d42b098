"""A strict Content-Security-Policy for each page: nothing from elsewhere, and of scripts only those that are known."""

import base64
import hashlib
import re

INLINE = re.compile(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>(.*?)</script>", re.DOTALL)


def add_policy(page: str) -> str:
    """Give a page with its policy, in which each script that stands in it has its hash."""
    digests = [hashlib.sha256(script.encode()).digest() for script in INLINE.findall(page)]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in dict.fromkeys(digests))
    policy = f"default-src 'self'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
    meta = f"<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}; object-src 'none'; base-uri 'none'\">"
    no_icon = '<link rel="icon" href="data:,">'
    return page.replace("<head>", f"<head>\n{meta}\n{no_icon}", 1)
