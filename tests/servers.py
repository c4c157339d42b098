"""Waiting for a Jupyter server."""

import json
import subprocess
import time
import urllib.request
from pathlib import Path


def wait_for_server(process: subprocess.Popen, folder: Path, log: Path, seconds: float = 60) -> dict:
    """Give what a server writes of itself into a folder, once it answers: it writes before it listens."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        try:
            (description,) = folder.glob("jpserver-*.json")
            server = json.loads(description.read_text())
            urllib.request.urlopen(f"{server['url']}api", timeout=5).close()
            return server
        except (ValueError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"no server answers: {log.read_text()}")
