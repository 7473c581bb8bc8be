from __future__ import annotations

import pytest

from podtune.kube import paths
from podtune.kube.answers import check_answer
from podtune.kube.errors import WrongObject

TRIAL = {"kind": "Trial", "metadata": {"namespace": "team-a", "name": "digits-0"}}


def test_the_object_that_was_asked_for_will_do() -> None:
    check_answer(paths.trial("team-a", "digits-0"), TRIAL)


@pytest.mark.parametrize(
    "answer",
    [
        {**TRIAL, "kind": "TrialList"},
        {**TRIAL, "kind": "Pod"},
        {**TRIAL, "metadata": {"namespace": "team-b", "name": "digits-0"}},
        {**TRIAL, "metadata": {"namespace": "team-a", "name": "digits-1"}},
        {"kind": "Trial", "metadata": None},
        {},
    ],
)
def test_another_one_will_not(answer: dict[str, object]) -> None:
    with pytest.raises(WrongObject, match="Trial team-a/digits-0 was asked for"):
        check_answer(paths.trial("team-a", "digits-0"), answer)


@pytest.mark.parametrize("path", [paths.trials("team-a"), paths.trials(), paths.TOKEN_REVIEWS])
def test_lists_and_reviews_are_no_single_objects(path: str) -> None:
    check_answer(path, {"kind": "TrialList"})
