from __future__ import annotations

from podtune.kube import manifests

EXPERIMENT = manifests.refer_to_experiment("digits", "e-1")


def test_a_trial_belongs_to_its_experiment_and_is_found_by_it() -> None:
    own = {"optimizer": "adam", "podtune.dev/experiment": "another"}
    trial = manifests.make_trial("digits-0", "digits", EXPERIMENT, {"index": 0}, own)
    assert (trial["apiVersion"], trial["kind"], trial["spec"]) == ("podtune.dev/v1alpha1", "Trial", {"index": 0})
    (selector,) = manifests.select_experiment("digits").values()
    assert {selector, "optimizer=adam"} <= {f"{name}={value}" for name, value in trial["metadata"]["labels"].items()}
    assert manifests.find_owner_uid(trial, "Experiment") == "e-1"


def test_an_owner_of_another_kind_or_one_that_does_not_control_is_none() -> None:
    guest = {key: value for key, value in EXPERIMENT.items() if key != "controller"}
    assert manifests.find_owner_uid({"metadata": {"ownerReferences": [EXPERIMENT]}}, "Trial") == ""
    assert manifests.find_owner_uid({"metadata": {"ownerReferences": [guest]}}, "Experiment") == ""
    assert manifests.find_owner_uid({"metadata": {"ownerReferences": None}}, "Experiment") == ""


def test_an_owner_may_be_deleted_without_waiting() -> None:
    waits = manifests.refer_to_trial("digits-0", "t-1")
    assert waits["blockOwnerDeletion"] is True
    assert "blockOwnerDeletion" not in manifests.refer_to_experiment("digits", "e-1", blocks_deletion=False)


def test_what_was_learnt_goes_with_the_experiment_that_learns() -> None:
    kept = manifests.make_warm_start("digits", EXPERIMENT, {"results.jsonl": "{}"})
    assert kept["metadata"]["name"] == manifests.make_warm_start_name("digits")
    assert kept["immutable"] is True
    assert manifests.find_owner_uid(kept, "Experiment") == "e-1"
