"""What Artifact Hub shows of the charts follows from the resources, an example and the changelog."""

from __future__ import annotations

import yaml

from docs.reference_pages.artifact_hub import ROOT, chart_metadata, list_changes

CHANGELOG = """\
# Changelog

## [Unreleased]

### Added

- Not yet.

## [1.1.0] - 2026-02-01

### Renamed

- Nothing.

### Added

- A button that
  does [much](docs/much.md); it is green. It may be red.
- Another, of `spec.x: y`.

### Fixed

- The button.

## [1.0.0] - 2026-01-01

### Added

- All.
"""


def test_changes_are_those_of_one_version_each_in_a_sentence() -> None:
    assert list(list_changes(CHANGELOG, "1.1.0")) == [
        {"kind": "added", "description": "A button that does much"},
        {"kind": "added", "description": "Another, of `spec.x: y`."},
        {"kind": "fixed", "description": "The button."},
    ]
    assert list(list_changes(CHANGELOG, "2.0.0")) == []


def test_what_is_shown_can_be_read() -> None:
    for path, text in chart_metadata().items():
        chart = yaml.safe_load(text)
        assert chart["name"] == path.parent.name
        shown = {name.removeprefix("artifacthub.io/"): value for name, value in chart["annotations"].items()}
        assert {entry["kind"] for entry in yaml.safe_load(shown["crds"])} == {"Experiment", "Trial"}
        for entry in yaml.safe_load(shown.get("changes", "[]")):
            assert set(entry) == {"kind", "description"}
        for example in yaml.safe_load(shown.get("crdsExamples", "[]")):
            assert example["kind"] == "Experiment"


def test_the_last_release_is_told_of_in_whole_sentences() -> None:
    changes = list(list_changes((ROOT / "CHANGELOG.md").read_text(), "0.2.0"))
    assert "added" in {change["kind"] for change in changes}
    assert all(len(change["description"]) > 20 for change in changes)
