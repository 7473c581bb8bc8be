"""`podtune export` and `podtune import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.cli import main as cli
from podtune.cli.archives.archive import seal
from podtune.cli.client import api_client
from podtune.cluster.decoders import decode_trial
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from tests.unit.cli.cli_fakes import FakeApi
from tests.unit.cluster.objects import experiment_body, trial_body

OLD = "team"


class MovingApi(FakeApi):
    """A cluster that statuses can be written in."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.fails_at = ""

    def create(self, path: str, item: Any, params: Any = None) -> Any:
        place = f"{path}/{item['metadata']['name']}"
        if place == self.fails_at:
            raise ApiRefusal(500, "InternalError", "busy")
        self.writes.append(f"create {item['metadata']['name']}")
        return super().create(path, item)

    def patch(self, path: str, change: Any) -> Any:
        place = path.removesuffix("/status")
        self.writes.append(f"patch {place.rpartition('/')[2]}{' status' if path.endswith('/status') else ''}")
        item = self.objects[place]
        if path.endswith("/status"):
            item["status"] = change["status"]
        else:
            annotations = item["metadata"].setdefault("annotations", {})
            for key, value in change["metadata"]["annotations"].items():
                annotations.pop(key, None) if value is None else annotations.update({key: value})
        return item


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> MovingApi:
    fake = MovingApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or OLD))
    return fake


def suspended(api: MovingApi, **changes: Any) -> None:
    body = experiment_body(suspend=True)
    body["metadata"] |= {"generation": 3, "annotations": {"example.com/a": "b", "podtune.dev/x": "y"}, **changes}
    condition = {"type": "Suspended", "status": "True", "reason": "Suspended", "observedGeneration": 3}
    body["status"] = {
        "state": "Running",
        "observedGeneration": 3,
        "trials": {"total": 2, "paused": 1, "terminated": 1},
        "best": {"trial": "digits-1", "value": "0.9"},
        "conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    api.objects[paths.experiment(OLD, "digits")] = body
    clone = {"donor": "digits-1", "checkpoint": {"step": 3, "uri": "s3://b/e-1/digits-1/a/3", "digest": "sha256:0"}}
    pod = {"name": "digits-0-1", "uid": "p"}
    statuses: list[dict[str, Any]] = [{"state": "PAUSED", "clone": clone, "pod": pod}, {"state": "TERMINATED"}]
    for index, status in enumerate(statuses):
        trial = trial_body(index, uid=f"t-{index}", **status)
        trial["metadata"]["labels"] = {"podtune.dev/experiment": "digits"}
        api.objects[paths.trial(OLD, f"digits-{index}")] = trial


def exported(api: MovingApi, tmp_path: Path, *words: str) -> Path:
    file = tmp_path / "digits.yaml"
    assert cli.main(["export", "digits", "-o", str(file), *words]) == 0
    return file


def test_an_experiment_is_made_again_elsewhere_with_all_that_it_has_recorded(api: MovingApi, tmp_path: Path) -> None:
    suspended(api)
    file = exported(api, tmp_path)
    assert cli.main(["import", str(file), "-n", "elsewhere"]) == 0
    made = api.objects[paths.experiment("elsewhere", "digits")]
    before = api.objects[paths.experiment(OLD, "digits")]
    assert made["spec"] == before["spec"]
    former = {"podtune.dev/former": "e-1/digits"}
    assert made["metadata"]["annotations"] == {"example.com/a": "b", "podtune.dev/imported": "2", **former}
    assert made["status"]["trials"] == before["status"]["trials"]
    assert made["status"]["observedGeneration"] == made["status"]["conditions"][0]["observedGeneration"] == 1
    trial = api.objects[paths.trial("elsewhere", "digits-0")]
    assert trial["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert trial["status"]["clone"] == api.objects[paths.trial(OLD, "digits-0")]["status"]["clone"]
    assert "pod" not in trial["status"]


def test_revisions_that_are_kept_elsewhere_are_not_listed(api: MovingApi, tmp_path: Path) -> None:
    """Their ControllerRevisions stay behind; one that is listed would never be kept again."""
    kept = [{"name": "1111", "number": 4, "time": "2026-01-01T00:00:00Z"}]
    suspended(api)
    api.objects[paths.experiment(OLD, "digits")]["status"]["template"] = {"first": "0000", "revisions": kept}
    assert cli.main(["import", str(exported(api, tmp_path)), "-n", "elsewhere"]) == 0
    found = api.objects[paths.experiment("elsewhere", "digits")]["status"]["template"]
    assert found == {"first": "0000", "revisions": []}


def test_programs_get_the_experiment_that_is_imported(
    api: MovingApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended(api)
    file = exported(api, tmp_path)
    capsys.readouterr()
    assert cli.main(["import", str(file), "--name", "numbers", "-o", "name"]) == 0
    assert capsys.readouterr().out == "experiment.podtune.dev/numbers\n"


def test_the_operator_is_held_off_until_all_is_there(api: MovingApi, tmp_path: Path) -> None:
    suspended(api)
    file = exported(api, tmp_path)
    cli.main(["import", str(file), "-n", "elsewhere"])
    assert api.writes == [
        "create digits",
        *("create digits-0", "patch digits-0 status", "create digits-1", "patch digits-1 status"),
        *("patch digits status", "patch digits"),
    ]


def test_an_import_that_was_broken_off_is_taken_up_again(api: MovingApi, tmp_path: Path) -> None:
    suspended(api)
    file = exported(api, tmp_path)
    api.fails_at = paths.trial("elsewhere", "digits-1")
    assert cli.main(["import", str(file), "-n", "elsewhere"]) == 1
    made = api.objects[paths.experiment("elsewhere", "digits")]
    assert made["metadata"]["annotations"]["podtune.dev/importing"] == "e-1"
    api.fails_at = ""
    assert cli.main(["import", str(file), "-n", "elsewhere"]) == 0
    former = {"podtune.dev/former": "e-1/digits"}
    assert made["metadata"]["annotations"] == {"example.com/a": "b", "podtune.dev/imported": "2", **former}


def test_one_that_is_there_is_not_written_over(
    api: MovingApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended(api)
    file = exported(api, tmp_path)
    assert cli.main(["import", str(file)]) == 1
    assert "there is an Experiment 'digits' in namespace 'team'; import it by another --name" in capsys.readouterr().err


def test_under_another_name_its_trials_and_what_names_them_are_called_after_it(api: MovingApi, tmp_path: Path) -> None:
    suspended(api)
    file = exported(api, tmp_path)
    assert cli.main(["import", str(file), "--name", "numbers"]) == 0
    assert api.objects[paths.experiment(OLD, "numbers")]["status"]["best"]["trial"] == "numbers-1"
    trial = api.objects[paths.trial(OLD, "numbers-0")]
    assert trial["spec"]["experiment"] == "numbers"
    assert trial["status"]["clone"]["donor"] == "numbers-1"
    assert trial["status"]["clone"]["checkpoint"]["uri"] == "s3://b/e-1/digits-1/a/3", "it stays where it is"


ADDED = "digits-100000"


def add_trial(api: MovingApi, **spec: Any) -> None:
    """A Trial that a person has added, once the operator has made it the experiment's."""
    trial = trial_body(uid="t-added", state="TERMINATED")
    trial["metadata"] |= {
        "name": ADDED,
        "labels": {"podtune.dev/experiment": "digits"},
        "annotations": {"podtune.dev/author": "ada"},
    }
    trial["spec"] = {"experiment": "digits", "parameters": {"lr": "0.02", "units": "64"}, **spec}
    api.objects[paths.trial(OLD, ADDED)] = trial


def test_a_trial_that_a_person_has_added_goes_along_with_its_author(
    api: MovingApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended(api)
    body = api.objects[paths.experiment(OLD, "digits")]
    body["spec"]["parameters"].append({"name": "depth", "fixed": {"value": 3}})
    body["spec"]["trialTemplate"]["metadata"] = {"labels": {"depth": "$(PODTUNE_PARAM_depth)"}}
    add_trial(api, restoreFrom={"trial": "digits-1"})
    before = api.objects[paths.trial(OLD, ADDED)]
    assert cli.main(["import", str(exported(api, tmp_path)), "-n", "elsewhere"]) == 0
    made = api.objects[paths.trial("elsewhere", ADDED)]
    assert (made["spec"], made["status"]["state"]) == (before["spec"], "TERMINATED")
    assert made["metadata"]["labels"]["depth"] == "3", "as the operator labels it"
    record = decode_trial({**made, "metadata": {**made["metadata"], "uid": "new", "resourceVersion": "1"}})
    assert (record.spec.index, record.owned, record.author) == (100_000, True, "ada")
    capsys.readouterr()
    assert cli.main(["why", ADDED, "-n", "elsewhere"]) == 0
    assert "ada by their own account" in capsys.readouterr().out


@pytest.mark.parametrize("experiment", [{}, {"experiment": "digits"}])
def test_under_another_name_an_added_trial_starts_from_the_same_trial(
    api: MovingApi, tmp_path: Path, experiment: dict[str, str]
) -> None:
    suspended(api)
    add_trial(api, restoreFrom={"trial": "digits-1", **experiment})
    growing = [{"parameters": {"lr": 0.01, "units": 32}, "restoreFrom": {"trial": "digits-0"}}]
    spec = api.objects[paths.experiment(OLD, "digits")]["spec"]
    spec["checkpoints"] = {"store": {"bucket": "models"}}
    spec["search"]["initial"] = growing
    assert cli.main(["import", str(exported(api, tmp_path)), "--name", "numbers"]) == 0
    source = api.objects[paths.trial(OLD, "numbers-100000")]["spec"]["restoreFrom"]
    assert source == {"trial": "numbers-1", **({"experiment": "numbers"} if experiment else {})}
    made = api.objects[paths.experiment(OLD, "numbers")]["spec"]["search"]["initial"]
    assert made[0]["restoreFrom"] == {"trial": "numbers-0"}


def test_what_starts_from_a_trial_of_another_experiment_still_does_under_another_name(
    api: MovingApi, tmp_path: Path
) -> None:
    suspended(api)
    elsewhere = {"experiment": "letters", "trial": "letters-1"}
    api.objects[paths.trial(OLD, "digits-0")]["spec"]["restoreFrom"] = elsewhere
    assert cli.main(["import", str(exported(api, tmp_path)), "--name", "numbers"]) == 0
    assert api.objects[paths.trial(OLD, "numbers-0")]["spec"]["restoreFrom"] == elsewhere


def test_one_that_runs_is_refused_unless_a_copy_is_asked_for(
    api: MovingApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended(api)
    body = api.objects[paths.experiment(OLD, "digits")]
    body["spec"]["suspend"] = False
    assert cli.main(["export", "digits", "-o", str(tmp_path / "x")]) == 1
    assert "`podtune pause experiment/digits` first" in capsys.readouterr().err
    api.objects[paths.trial(OLD, "digits-0")]["status"] |= {"state": "RUNNING", "durableSeq": 7}
    file = exported(api, tmp_path, "--anyway")
    assert capsys.readouterr().err.startswith("warning: digits still runs")
    status = yaml.safe_load(file.read_text())["trials"][0]["status"]
    assert (status["state"], "durableSeq" in status) == ("PENDING", False)


def test_it_warns_where_the_old_one_would_take_the_checkpoints_with_it(
    api: MovingApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended(api, finalizers=["podtune.dev/checkpoints"])
    exported(api, tmp_path)
    assert "set its checkpoints.deletionPolicy to Retain before you delete it" in capsys.readouterr().err


def test_what_was_learnt_from_an_earlier_experiment_goes_along(api: MovingApi, tmp_path: Path) -> None:
    suspended(api)
    body = api.objects[paths.experiment(OLD, "digits")]
    body["spec"]["search"]["warmStart"] = {"experiment": "earlier"}
    api.objects[f"/api/v1/namespaces/{OLD}/configmaps/digits-warm-start"] = {"data": {"results.jsonl": "{}"}}
    file = exported(api, tmp_path)
    assert cli.main(["import", str(file), "-n", "elsewhere"]) == 0
    kept = api.objects["/api/v1/namespaces/elsewhere/configmaps/digits-warm-start"]
    assert kept["data"] == {"results.jsonl": "{}"}


@pytest.mark.parametrize("text", ["1e-05", "-3e4", "0.1", "2026-01-01", "true", "1_000", "null", "0x1f", "1e5 trials"])
def test_a_value_that_looks_like_a_number_is_still_a_text_in_the_file(
    api: MovingApi, tmp_path: Path, text: str
) -> None:
    suspended(api)
    api.objects[paths.trial(OLD, "digits-1")]["status"]["bestParameters"] = {"lr": text}
    assert cli.main(["import", str(exported(api, tmp_path)), "-n", "elsewhere"]) == 0
    assert api.objects[paths.trial("elsewhere", "digits-1")]["status"]["bestParameters"] == {"lr": text}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda body: body.update(kind="Experiment"), "it is no ExperimentArchive"),
        (lambda body: body.update(version=2), "its version is 2, this program knows 1"),
        (lambda body: body["experiment"]["spec"].update(maxConcurrentTrials=0), "it is damaged"),
        (lambda body: body["trials"][0].update(name="other-0"), "it is damaged"),
        (lambda body: body["trials"][0]["status"].update(attempt=-1), "it is damaged"),
        (lambda body: body["trials"][0].update(author=["ada"]), "it is damaged"),
        (lambda body: body.pop("trials"), "it is damaged"),
    ],
)
def test_a_file_that_can_not_be_worked_with_is_refused_before_anything_is_made(
    api: MovingApi, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, problem: str
) -> None:
    suspended(api)
    file = exported(api, tmp_path)
    body = yaml.safe_load(file.read_text())
    del body["digest"]
    change(body)
    file.write_text(yaml.safe_dump(seal(body)))
    assert cli.main(["import", str(file), "-n", "elsewhere"]) == 1
    assert problem in capsys.readouterr().err
    assert api.writes == []


def test_a_file_that_was_cut_off_is_not_taken_for_an_experiment_of_fewer_trials(
    api: MovingApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended(api)
    file = exported(api, tmp_path)
    whole = file.read_text()
    file.write_text(whole[: whole.index("- name: digits-1")])
    assert len(yaml.safe_load(file.read_text())["trials"]) == 1, "it can be read"
    capsys.readouterr()
    assert cli.main(["import", str(file), "-n", "elsewhere"]) == 1
    assert capsys.readouterr().err == (
        f"error: {file}: it is damaged: it is not what was exported, by its digest; export the experiment once more\n"
    )
    assert api.writes == []
