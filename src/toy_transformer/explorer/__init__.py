"""The explorer: all numbers of a model under the reader's hand, and every view of it following."""

from toy_transformer.explorer.widget import Explorer, SideBySide, explore

__all__ = ["Explorer", "SideBySide", "explore"]
