"""`podtune curve`: learning curves in a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from tests.unit.cli.cli_fakes import NAMESPACE
from tests.unit.cli.shown_cluster import make_cluster, make_experiment, make_trial

Podtune = Callable[..., list[str]]


@pytest.fixture
def podtune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Podtune:
    api = make_cluster()
    api.add_experiment(make_experiment("audio"))
    api.add_trial(make_trial(7, "audio"))
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))

    def run(line: str, code: int = 0) -> list[str]:
        assert cli.main(line.split()) == code
        written = capsys.readouterr()
        return (written.err if code else written.out).splitlines()

    return run


def test_a_curve_has_axes_and_a_line_that_says_where_it_ends(podtune: Podtune) -> None:
    lines = podtune("curve digits-3")
    assert lines[0] == "accuracy over iterations"
    assert lines[1].startswith("0.7050 ┤")
    assert any(line.startswith("0.5300 ┤") for line in lines)
    assert lines[-3].split() == ["1", "8"]
    assert lines[-1] == "digits-3  accuracy 0.705 at iteration 8, 1m20s of training"


def test_several_curves_have_letters_at_their_ends(podtune: Podtune) -> None:
    lines = podtune("curve digits-4 digits-1 --over time")
    assert lines[0] == "accuracy over seconds of training"
    ends = {line[-1]: place for place, line in enumerate(lines) if line.endswith((" a", " b"))}
    assert ends["a"] < ends["b"], "the higher value stands above"
    assert lines[-2].startswith("a  digits-4  accuracy 0.715")
    assert lines[-1].startswith("b  digits-1  accuracy 0.685")


def test_programs_get_all_points(podtune: Podtune) -> None:
    facts = json.loads("\n".join(podtune("curve digits-3 digits-5 -o json")))
    assert facts["metric"] == "accuracy"
    assert facts["items"][0] == {
        "trial": "digits-3",
        "steps": list(range(1, 9)),
        "seconds": [10 * step for step in range(1, 9)],
        "values": [0.53, 0.555, 0.58, 0.605, 0.63, 0.655, 0.68, 0.705],
    }
    assert facts["items"][1]["values"] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("curve digits-5", "digits-5: no finite value of accuracy is reported yet"),
        ("curve digits-1 audio-7", "audio-7 is a Trial of audio, and digits-1 one of digits"),
        ("curve digits-1 --metric loss", "--metric loss: curves are kept of accuracy; `podtune results` has"),
        (f"curve {' '.join(f'digits-{number}' for number in range(13))}", "13 Trials are named; name at most 12"),
    ],
)
def test_what_has_no_curve_is_refused(podtune: Podtune, line: str, said: str) -> None:
    assert said in podtune(line, 1)[0]
