"""Completion in shells: what the script has them ask, and what they are answered."""

from __future__ import annotations

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.errors import ExitStatus, KubeconfigError
from podtune.kube import paths
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    for path, names in ((paths.experiments(NAMESPACE), ["digits", "audio"]), (paths.trials(NAMESPACE), ["digits-0"])):
        api.objects[path] = {"items": [{"metadata": {"name": name}} for name in names]}
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    return api


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    def complete(line: str) -> list[str]:
        monkeypatch.setenv("_PODTUNE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit):
            cli.main([])
        return capsys.readouterr().out.split()

    return complete


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("podtune val", ["validate"]),
        ("podtune checkpoints ver", ["verify"]),
        ("podtune watch d", ["digits"]),
        ("podtune watch ", ["digits", "audio"]),
        ("podtune why d", ["digits-0"]),
        ("podtune pause d", ["digits", "digits-0"]),
        ("podtune wait --time", ["--timeout"]),
        ("podtune pause digits -o ", ["json", "yaml", "name"]),
        ("podtune version -o y", ["yaml"]),
        ("podtune watch -n other d", []),
    ],
)
def test_commands_options_and_names_are_offered(line: str, offered: list[str], api: FakeApi, ask: object) -> None:
    assert callable(ask)
    assert ask(line) == offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["val"], ["validate", ":4"]),
        (["watch", ""], ["digits", "audio", ":4"]),
        (["watch", "-n", "Not A Name", "d"], [":4"]),
    ],
)
def test_kubectl_is_answered_as_it_asks_plugins(
    words: list[str],
    offered: list[str],
    api: FakeApi,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("_PODTUNE_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        monkeypatch.setenv(name, "")  # is taken back at the end
    with pytest.raises(SystemExit):
        cli.complete_for_kubectl(words)
    assert capsys.readouterr().out.split() == offered


def test_without_a_cluster_no_names_are_offered(monkeypatch: pytest.MonkeyPatch, ask: object) -> None:
    def refuse(*_: object) -> object:
        raise KubeconfigError("no kubeconfig")

    monkeypatch.setattr(api_client, "open_api", refuse)
    assert callable(ask)
    assert ask("podtune watch d") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == ExitStatus.DONE
    script = capsys.readouterr().out
    assert f"_PODTUNE_COMPLETE=complete_{shell}" in script
    assert "podtune" in script


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "ksh"]) == ExitStatus.USAGE
    assert "bash" in capsys.readouterr().err
