"""What matplotlib draws, and how it reaches its reader."""

from toy_transformer.pictures.picture import LivePicture, Picture

__all__ = ["LivePicture", "Picture"]
