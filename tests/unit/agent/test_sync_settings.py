"""How checkpoints and artifacts are stored: the options of `checkpoints`."""

import json

import pytest

from podtune.agent.settings import AgentSettingsError, Settings
from podtune.agent.sync_settings import ArtifactSettings, SyncSettings


def test_all_options_are_read() -> None:
    text = json.dumps({
        "layout": "Packed", "reuseUnchanged": False, "exclude": ["*.tmp"], "timeout": 60, "retries": 3,
        "artifacts": {"include": ["logs/*"], "exclude": ["x"], "period": 10, "onCheckpoint": False},
        "results": 4096, "segmentPeriod": 0.5,
    })  # fmt: skip
    found = SyncSettings.from_json(text)
    assert (found.options.packs, found.options.reuses, found.options.exclude) == (True, False, ("*.tmp",))
    assert (found.timeout, found.retries) == (60, 3)
    assert found.artifacts == ArtifactSettings(("logs/*",), ("x",), 10, False)
    assert (found.results, found.segment_period) == (4096, 0.5)
    assert SyncSettings.from_json("") == SyncSettings()


def test_results_and_output_are_stored_every_ten_seconds() -> None:
    assert SyncSettings.from_json("{}").segment_period == 10


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"timeout": "x"}', '{"exclude": 1}', '{"artifacts": 1}', '{"retries": -1}', '{"results": "1Gi"}'],
)
def test_wrong_settings_are_named(environ: dict[str, str], text: str) -> None:
    with pytest.raises(AgentSettingsError, match="PODTUNE_SYNC is"):
        Settings.from_environ(environ | {"PODTUNE_SYNC": text})
