"""Each package that we ship has a licence under which we may."""

from __future__ import annotations

from email.message import Message

import pytest

from release import licences
from release.licences import ACCEPTED, find_licence, list_ids, list_shipped, read_licences, write_list
from release.shipped_packages import Package

REMEDY = "run .venv/bin/python -m release.licences --write"


def test_the_licence_of_each_shipped_package_is_written_down() -> None:
    assert list_shipped() == read_licences().keys(), REMEDY


@pytest.mark.parametrize("name", sorted(read_licences()))
def test_a_licence_is_one_that_we_may_ship_and_what_the_package_says(name: str) -> None:
    written = read_licences()[name]
    assert list_ids(written) <= ACCEPTED
    assert find_licence(name) in (written, None), REMEDY


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "MIT OR Apache-2.0"}, "MIT OR Apache-2.0"),
        ({"License": "Apache License 2.0"}, "Apache-2.0"),
        (
            {
                "License": "Copyright (c) 2001 Somebody\n\nAll rights",
                "Classifier": "License :: OSI Approved :: MIT License",
            },
            "MIT License",
        ),
        ({"License": "MIT"}, "MIT"),
    ],
)
def test_a_licence_is_read_wherever_a_package_names_it(
    fields: dict[str, str], licence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = Message()
    for field, value in fields.items():
        message[field] = value
    monkeypatch.setattr(licences, "metadata", lambda name: message)
    assert find_licence("any") == {"MIT License": "MIT"}.get(licence, licence)


def test_a_licence_that_is_left_open_has_to_be_read_by_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message()
    message["License"] = "GPL-3.0-only"
    monkeypatch.setattr(licences, "metadata", lambda name: message)
    with pytest.raises(ValueError, match=r"any says of its licence \['GPL-3.0-only'\]: read its licence file"):
        find_licence("any")


def test_the_list_for_people_has_a_row_for_each_package() -> None:
    text = write_list([Package("b", "2"), Package("a", "1")], {"a": "MIT", "b": "ISC"})
    assert text.splitlines()[2:] == ["| a | 1 | MIT |", "| b | 2 | ISC |"]
