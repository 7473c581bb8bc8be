"""What examines pages finds what is wrong with them, and nothing else."""

from __future__ import annotations

from e2e.browser.examination import find_flaws, find_unseen_focus, find_violations
from e2e.browser.tests.conftest import Visit

WELL = """<main><h1>Title</h1><p>One line</p>
  <div style="width: 80px; overflow: hidden; white-space: nowrap">a name that is cut short, as is meant</div>
  <div style="position: sticky; bottom: 0; margin-top: -18px">lies over the page</div>
  <div class="scroll" style="overflow-x: auto"><p style="width: 5000px; text-align: right">to the right</p></div>
  <svg width="300" height="60"><text x="5" y="20">one</text><text x="5" y="40">two</text></svg></main>"""
FLAWS = {
    "two texts of a page": (
        '<main><div style="margin-bottom: -12px">under</div><div>over it</div></main>',
        '"under" and "over it" overlap',
    ),
    "two texts of a chart": (
        '<main><svg width="300" height="60"><text x="5" y="20">one</text><text x="9" y="24">two</text></svg></main>',
        '"one" and "two" overlap',
    ),
    "a text that shrinks with its chart": (
        '<main><svg width="100" height="20" viewBox="0 0 400 80"><text x="5" y="40">tiny</text></svg></main>',
        '"tiny" is too small: 4.0 pixels',
    ),
    "a text left of the window": (
        '<main><p style="margin-left: -30px">begins outside</p></main>',
        '"begins outside" is cut off at the window\'s edge',
    ),
    "a label beside its card": (
        '<main><div class="card" style="margin: 50px"><svg width="90" height="40" style="overflow: visible">'
        '<text x="0" y="20" text-anchor="end">1.0</text></svg></div></main>',
        '"1.0" is drawn past the edge of its card',
    ),
    "a label that a style makes": (
        "<main><style>.n::before { content: attr(data-label); display: block; white-space: nowrap }</style>"
        '<div class="n" style="width: 40px" data-label="a label of a cell">1</div></main>',
        '"a label of a cell" is wider than its cell',
    ),
    "a wide element": ('<main><div class="long" style="width: 5000px">x</div></main>', 'class="long"> is wider than'),
}


def test_a_page_that_is_well_has_no_flaw(visitors: Visit) -> None:
    page = visitors("about:blank").page
    page.set_content(WELL)
    assert find_flaws(page) == []


def test_each_flaw_is_found(visitors: Visit) -> None:
    page = visitors("about:blank").page
    for name, (content, words) in FLAWS.items():
        page.set_content(content)
        assert any(words in flaw for flaw in find_flaws(page)), (name, find_flaws(page))


def test_a_theme_with_pale_texts_is_found_by_the_rules_of_colours_alone(visitors: Visit) -> None:
    page = visitors("about:blank").page
    page.set_content('<html lang="en"><title>t</title><main><h1 style="color: #ddd">Pale</h1><img src="data:,"></main>')
    assert any("image-alt" in each for each in find_violations(page))
    (violation,) = find_violations(page, "of colours")
    assert violation.startswith("color-contrast (serious), 1 times")


def test_a_focus_that_nobody_sees_is_found(visitors: Visit) -> None:
    page = visitors("about:blank").page
    field = '<span style="outline: 2px solid"><input style="outline: 0"></span>'
    seen = f'<p style="padding: 20px"><a href="#x">link</a> {field}</p>'
    page.set_content(f"<main>{seen}</main>")
    assert find_unseen_focus(page) == []
    cut = '<div style="overflow: auto"><a href="#y" style="display: block">link in a box without room</a></div>'
    page.set_content(f'<main>{seen}<p><button style="outline: none">bare</button></p>{cut}</main>')
    assert find_unseen_focus(page) == [
        '<button class=""> bare has the focus, and nothing shows it',
        '<a class=""> link in a box without room has an outline that is cut off',
    ]
