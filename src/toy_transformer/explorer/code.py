"""The code of an explorer's state: one line of text that holds it. `js/code.js` writes and reads the same.

Seven parts with dots between them: "TT2", the numbers and κ (float32, in base64), the strings, the model's name, the
epoch, the letters that are required, and a checksum. "TT1", the version before, asks for a and b and does not say so.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

import numpy as np

PREFIX, PREFIX_BEFORE = "TT2", "TT1"


def encode(state: Mapping, weights: Mapping) -> str:
    """Write a state, of which `weights` are the numbers by name in the order of the code, as one line."""
    numbers = np.concatenate([*(np.ravel(weights[name]) for name in weights), [state["length_scaling"]]])
    packed = base64.urlsafe_b64encode(numbers.astype("<f4").tobytes()).decode().rstrip("=")
    title = quote(state["model_name"], safe="!~*'()-_").replace(".", "%2E")
    epoch = "" if state["epoch"] is None else str(state["epoch"])
    body = ".".join([PREFIX, packed, ",".join(state["strings"]), title, epoch, state["required"]])
    return f"{body}.{checksum(body)}"


def decode(code: str, like: Mapping) -> dict:
    """Read a code; `like` has numbers of the same names and sizes. Values are not looked at: the traits check them.

    Raises `ValueError` for what is no such code.
    """
    if not isinstance(code, str):
        raise ValueError(f"expected the text of a code, found {type(code).__name__}")
    parts = code.strip().split(".")
    if len(parts) != {PREFIX: 7, PREFIX_BEFORE: 6}.get(parts[0]):
        raise ValueError(f"a code begins with {PREFIX}. and has 7 parts with dots between them")
    if checksum(".".join(parts[:-1])) != parts[-1]:
        raise ValueError("the code: something in it is missing or changed")
    _, packed, strings, title, epoch, *required = parts[:-1]
    sizes = [np.size(numbers) for numbers in like.values()]
    try:
        numbers = np.frombuffer(base64.b64decode(packed + "=" * (-len(packed) % 4), "-_", validate=True), "<f4")
    except (binascii.Error, ValueError):
        numbers = np.empty(0)
    if len(numbers) != sum(sizes) + 1 or not re.fullmatch("[0-9]{0,4}", epoch, re.ASCII):
        raise ValueError(f"the code: expected {sum(sizes)} numbers, κ, and a whole number as the epoch")
    pieces = np.split(numbers, np.cumsum(sizes))
    weights = {name: piece.reshape(np.shape(like[name])).tolist() for name, piece in zip(like, pieces, strict=False)}
    return {
        "weights": weights,
        "length_scaling": float(pieces[-1][0]),
        "strings": strings.split(","),
        "model_name": unquote(title),
        "epoch": int(epoch) if epoch else None,
        "required": required[0] if required else "ab",
    }


def checksum(text: str) -> str:
    """Give the FNV-1a hash, 32 bits in base 36, of a text."""
    number = 2166136261
    for byte in text.encode("utf-8", "surrogatepass"):
        number = ((number ^ byte) * 16777619) & 0xFFFFFFFF
    return np.base_repr(number, 36).lower()
