"""For all unit tests: each line that is logged meanwhile is one of the schema's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.log_lines import collect_problems


@pytest.fixture(scope="session")
def log_problems() -> Iterator[list[str]]:
    with collect_problems() as problems:
        yield problems


@pytest.fixture(autouse=True)
def _logged_lines_are_of_the_schema(log_problems: list[str]) -> Iterator[None]:
    yield
    found = list(log_problems)
    log_problems.clear()
    assert not found, "see docs/reference_pages/log_fields.yaml"
