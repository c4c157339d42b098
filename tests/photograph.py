"""Takes the picture of the explorer for the README: a part of `make figures`.

The picture keeps a digest of the page that it shows, so that a test can say when it is out of date.
"""

import hashlib
from io import BytesIO
from pathlib import Path

from browser import launch
from PIL import Image
from PIL.PngImagePlugin import PngInfo

FIGURES = Path(__file__).parent.parent / "figures"
PAGE, PICTURE = FIGURES / "explorer.html", FIGURES / "explorer.png"
WIDTH = 1180


def digest_of_page() -> str:
    return hashlib.sha256(PAGE.read_bytes()).hexdigest()


def photograph() -> None:
    with launch() as browser:
        page = browser.new_page(viewport=dict(width=WIDTH, height=1000), color_scheme="light", device_scale_factor=1.5)
        page.goto(PAGE.as_uri())
        page.wait_for_selector(".toy-explorer .card")
        heads = page.locator(".card.heads").bounding_box()
        height = heads["y"] + heads["height"] + 8
        png = page.screenshot(full_page=True, clip=dict(x=0, y=0, width=WIDTH, height=height))
    about = PngInfo()
    about.add_text("page", digest_of_page())
    Image.open(BytesIO(png)).quantize(256).save(PICTURE, pnginfo=about, optimize=True)
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    photograph()
