"""What a release says to be in its images is what the Dockerfile puts there."""

from __future__ import annotations

from pathlib import Path

import pytest

from release.shipped_packages import OURS, Package, list_packages, read_lock

DOCKERFILE = """
ARG BASE_IMAGE=python
FROM ${BASE_IMAGE} AS build
RUN true

FROM build AS small-build
COPY requirements/small.txt /requirements.txt
RUN ${INSTALL} /requirements.txt && rm -r big_one big_one-* \\
    && rm -r left.py

FROM small-build AS large-build
COPY requirements/large.txt /requirements.txt
RUN ${INSTALL} /requirements.txt

FROM build AS large
COPY --from=large-build /opt /opt
"""


def test_an_image_has_what_its_stages_install_less_what_they_remove(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "small.txt").write_text("big-one==1.0 \\\n    --hash=sha256:00\nsmall_one==2.0\n")
    (tmp_path / "requirements" / "large.txt").write_text("small-one==2.1 ; sys_platform == 'linux'\nscipy==3\n")
    assert list_packages("large", tmp_path) == [Package("scipy", "3"), Package("small-one", "2.1")]
    assert list_packages("small-build", tmp_path) == [Package("small-one", "2.0")]


@pytest.mark.parametrize(
    ("target", "there", "missing"),
    [
        ("operator", "optuna", "sqlalchemy"),
        ("operator-gp", "scikit-learn", "mako"),
        ("agent", "boto3", "kopf"),
        ("dashboard", "jinja2", "rich"),
        ("dashboard-gp", "scipy", "markdown-it-py"),
    ],
)
def test_our_images_have_what_they_need_and_not_what_was_left_out(target: str, there: str, missing: str) -> None:
    assert target in OURS
    names = {package.name for package in list_packages(target)}
    assert there in names
    assert missing not in names


def test_a_lock_names_each_package_once() -> None:
    locked = read_lock(Path(__file__).parents[3] / "requirements" / "operator.txt")
    assert len({package.name for package in locked}) == len(locked) > 20
    assert all(package.url == f"pkg:pypi/{package.name}@{package.version}" for package in locked)
