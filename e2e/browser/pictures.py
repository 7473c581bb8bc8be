"""Makes the pictures of the documentation anew: python -m e2e.browser.pictures"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, FloatRect

from e2e.browser.chromium import open_browser
from e2e.browser.serving import serve_source
from e2e.browser.views import FINISHED, open_gallery
from e2e.browser.visitor import Theme, Window, visit

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH = 1280
MARGIN = 12
MOST_BYTES = 200_000
COLOURS = (224, 128, 64)
"""How many a picture may have: the first number with which it is small enough."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What is shown of a page.

    Attributes:
        name: Of the file, but for its theme.
        path: Of the page.
        first: What is at the top of the picture.
        last: What is at its bottom.
        themes: In which it is made; where there are two, the names of the files tell them apart.
    """

    name: str
    path: str
    first: str
    last: str
    themes: tuple[Theme, ...] = ("light",)

    def find_file(self, theme: Theme) -> Path:
        """Where it is kept."""
        return FOLDER / (f"{self.name}-{theme}.png" if len(self.themes) > 1 else f"{self.name}.png")


PICTURES = (
    # README's first screen.
    Picture("search-space", f"{FINISHED}parameters", "body", ".parallel .ramp", ("light", "dark")),
    Picture("overview", FINISHED, "body", "section[aria-labelledby=progress]"),
    Picture("curves", FINISHED, "section[aria-labelledby=curves]", "section[aria-labelledby=rungs]"),
    Picture(
        "importance", f"{FINISHED}parameters", "section[aria-labelledby=importance]", "section[aria-labelledby=contour]"
    ),
)


def photograph(browser: Browser, address: str, picture: Picture, theme: Theme) -> bytes:
    """A PNG of few enough bytes to be committed."""
    with visit(browser, address, Window(WIDTH, theme)) as visitor:
        page = visitor.open(picture.path)
        top = page.locator(picture.first).first.bounding_box()
        bottom = page.locator(picture.last).first.bounding_box()
        assert top is not None
        assert bottom is not None
        begin, end = max(top["y"] - MARGIN, 0), bottom["y"] + bottom["height"] + MARGIN
        clip: FloatRect = {"x": 0, "y": begin, "width": WIDTH, "height": end - begin}
        return shrink(page.screenshot(clip=clip, full_page=True, animations="disabled"))


def shrink(png: bytes) -> bytes:
    """The same with as many colours as the size of a committed picture allows.

    Raises:
        ValueError: It is too large with the fewest.
    """
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    for colours in COLOURS:
        out = io.BytesIO()
        reduced = picture.quantize(palette=choose_palette(picture, colours), dither=Image.Dither.NONE)
        reduced.save(out, "PNG", optimize=True)
        if out.tell() <= MOST_BYTES:
            return out.getvalue()
    raise ValueError(f"it has {out.tell()} bytes, at most {MOST_BYTES} may be committed; show less of the page")


def choose_palette(picture: Image.Image, colours: int) -> Image.Image:
    """Half of the colours are the most frequent: surfaces and texts. The others are spread over all that there are."""
    counted = picture.getcolors(picture.width * picture.height) or []
    frequent = [colour for _, colour in sorted(counted, reverse=True)[: colours // 2]]
    spread = picture.quantize(colours - len(frequent), Image.Quantize.FASTOCTREE, kmeans=1).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*(part for colour in frequent for part in colour), *spread])  # type: ignore[attr-defined]
    return palette


def main() -> int:
    """Makes all; returns the exit code."""
    with serve_source(open_gallery()) as address, open_browser() as browser:
        for picture in PICTURES:
            for theme in picture.themes:
                file = picture.find_file(theme)
                file.write_bytes(photograph(browser, address, picture, theme))
                print(f"{file.name}: {file.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
