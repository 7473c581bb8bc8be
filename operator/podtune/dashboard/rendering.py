"""Makes pages of templates. Whatever comes from an experiment is escaped: only templates write HTML."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from podtune import __version__
from podtune.cli.views.formats import format_duration
from podtune.dashboard.access.visit import find_page_access
from podtune.dashboard.actions.offers import list_offers
from podtune.dashboard.addresses import find_root
from podtune.dashboard.live.event_stream import find_live_page
from podtune.dashboard.numbers import (
    format_bytes,
    format_count,
    format_hours,
    format_measure,
    format_minute,
    format_text,
    format_whole,
    round_in_text,
)
from podtune.dashboard.pages.context import get_source
from podtune.dashboard.query_values import read_choice
from podtune.dashboard.trial_rows import STATE_WORDS, read_moment

_UNSAFE = re.compile("[^A-Za-z0-9._-]")
"""What stands in no name of a file that browsers are told."""
_STATIC = Path(__file__).parent / "static"
_THEME_BLOCK = re.compile(r':root(?P<dark>\[data-theme="dark"\])? \{(?P<colours>[^}]*)\}')
_NAMED_COLOUR = re.compile(r"--(?P<name>[a-z0-9-]+): (?P<colour>[^;]+);")
_COLOUR_REFERENCE = re.compile(r"var\(--(?P<name>[a-z0-9-]+)\)")


@cache
def find_static_files() -> Mapping[str, Path]:
    """All scripts and styles, by what their addresses end with, such as styles/style.css."""
    return {file.relative_to(_STATIC).as_posix(): file for file in sorted(_STATIC.rglob("*")) if file.is_file()}


@cache
def compress_static_file(file: Path) -> bytes:
    """A script or style as gzip, which is the same for all browsers."""
    return gzip.compress(file.read_bytes(), mtime=0)


@cache
def find_static_version() -> str:
    """A digest of all scripts and styles: another version has other addresses."""
    digest = hashlib.sha256()
    for name, file in find_static_files().items():
        digest.update(name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


@cache
def read_palette(*, is_dark: bool) -> Mapping[str, str]:
    """The colours of a theme for pictures, as pages have them, by their names with underscores for hyphens."""
    given: dict[str, str] = {}
    for block in _THEME_BLOCK.finditer((_STATIC / "styles" / "palette.css").read_text(encoding="utf-8")):
        if is_dark or not block["dark"]:
            given |= {colour["name"]: colour["colour"] for colour in _NAMED_COLOUR.finditer(block["colours"])}
    return {name.replace("-", "_"): _resolve(given, colour) for name, colour in given.items()}


def _resolve(given: Mapping[str, str], colour: str) -> str:
    other = _COLOUR_REFERENCE.fullmatch(colour)
    return _resolve(given, given[other["name"]]) if other else colour


def _format_moment(text: str) -> str:
    """A time of the API for people, without its year: 21 Nov 05:09."""
    moment = read_moment(text)
    return text if moment is None else format_minute(moment)


@cache
def _make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("podtune.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "measure": format_measure,
        "text": format_text,
        "whole": format_whole,
        "counted": format_count,
        "hours": format_hours,
        "bytes": format_bytes,
        "duration": lambda seconds: "–" if seconds is None else format_duration(seconds),
        "moment": _format_moment,
        "sentence": round_in_text,
        "segment": lambda text: quote(str(text), safe=""),
    }
    environment.globals |= {"list_offers": list_offers, "words": STATE_WORDS, "version": __version__}
    return environment


def render_page(request: web.Request, template: str, *, status: int = HTTPStatus.OK, **facts: Any) -> web.Response:
    """A page.

    Args:
        request: What is answered.
        template: Name of the template.
        status: Of the answer.
        facts: What the template needs besides.
    """
    pieces = (
        _make_environment()
        .get_template(template)
        .generate(
            root=find_root(request),
            static=find_static_version(),
            source=get_source(request).title,
            status_code=status,
            live=find_live_page(request),
            access=find_page_access(request),
            **facts,
        )
    )
    # Each for itself, as most are ASCII: a large text takes ten times as long to encode where one character is not.
    body = b"".join(map(str.encode, pieces))
    response = web.Response(status=status, body=body, content_type="text/html", charset="utf-8")
    response.enable_compression()
    return response


def render_svg(request: web.Request, template: str, name: str = "chart.svg", **facts: Any) -> web.Response:
    """A picture to download, in the theme that the address asks for.

    Args:
        request: What is answered.
        template: Name of the template.
        name: What browsers save it under.
        facts: What the template needs.
    """
    is_dark = read_choice(request.query, "theme", ("light", "dark"), "light") == "dark"
    text = _make_environment().get_template(template).render(colours=read_palette(is_dark=is_dark), **facts)
    return _make_file(text, "image/svg+xml", name)


def render_json(text: str) -> web.Response:
    """What a script of a page asks for."""
    response = web.Response(text=text, content_type="application/json")
    response.enable_compression()
    return response


def render_download(text: str, content_type: str, name: str) -> web.Response:
    """A file that browsers save under a name."""
    response = _make_file(text, content_type, name)
    response.enable_compression()
    return response


def _make_file(text: str, content_type: str, name: str) -> web.Response:
    response = web.Response(text=text, content_type=content_type, charset="utf-8")
    # Names of Kubernetes are safe; those of an archive from elsewhere may be anything.
    response.headers["Content-Disposition"] = f'attachment; filename="{_UNSAFE.sub("_", name)}"'
    return response
