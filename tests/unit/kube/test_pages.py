from __future__ import annotations

import pytest

from podtune.kube.errors import AnswerTooLarge
from podtune.kube.pages import PageRequest

FIRST = PageRequest(100, {"labelSelector": "a=b"})


def test_the_first_page_has_no_token() -> None:
    assert FIRST.query == {"labelSelector": "a=b", "limit": "100"}


def test_each_page_says_where_the_next_one_begins() -> None:
    second = FIRST.follow({"metadata": {"continue": "t"}, "items": []})
    assert second.query == {"labelSelector": "a=b", "limit": "100", "continue": "t"}


@pytest.mark.parametrize("page", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"continue": ""}}])
def test_after_the_last_page_there_is_none(page: dict[str, object]) -> None:
    assert FIRST.follow(page) is None


def test_pages_shrink_to_one_object_and_no_further() -> None:
    error = AnswerTooLarge("more than 32 MiB")
    request, limits = FIRST, []
    while request.limit > 1:
        request = request.shrink(error)
        limits.append(request.limit)
    assert limits == [12, 1]
    with pytest.raises(AnswerTooLarge, match="32 MiB"):
        request.shrink(error)
