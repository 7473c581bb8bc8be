"""Makes what the local cluster and our images take, both at once, where the cluster's tools are yet to be built.

python -m e2e.prepare

The tools keep the processor busy for minutes, the images wait for downloads, and neither needs a cluster that is up.
Where the tools are there already, nothing is done: `up` is quick then, and `e2e.install` builds what images changed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from e2e.devcluster import kind, native
from e2e.devcluster.building import azurite, builds
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.side_by_side import Pipeline, Step, make_all


def prepare(emulators: Sequence[Step] = ()) -> None:
    """Has the tools and the images in the cache; at once where the tools are.

    Args:
        emulators: How to make others that tests need besides.

    Raises:
        ClusterError: Not all could be made.
    """
    tools = kind.steps_before_up() if kind.is_used() else native.steps_before_up()
    if tools or emulators:
        images = [Pipeline(image_steps(), counted_as="images")] if tools else []
        make_all([Pipeline([*emulators, *tools]), *images])


def image_steps() -> list[Step]:
    """Returns how to build our images, in an order in which each finds what it is made from."""
    # Only now: what it imports takes longer than all of this where nothing is to be done.
    from e2e.install import IMAGES, ROOT

    dockerfile = ROOT / "Dockerfile"
    if kind.is_used():
        return [
            Step(f"the image {image.tag}", partial(kind.build_image, dockerfile, image.target, image.tag, {}, None))
            for image in IMAGES
        ]
    return [
        Step("the base image", builds.base_image),
        *(
            Step(f"the image {image.tag}", partial(builds.build_image, dockerfile, image.target, image.tag))
            for image in IMAGES
        ),
    ]


def main() -> int:
    """Does it; returns the exit code."""
    try:
        prepare(azurite.steps_to_azurite())
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
