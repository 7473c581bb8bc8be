"""Whether an ended experiment resumes, and how that is recorded.

When an experiment ends, it records the limits that ended it. It resumes when the spec has other limits that would not
have ended it, or more configurations to try that there is room for, or when `spec.resume.id` has changed. That is
written into its status first, with the policies that apply; then the trials follow (see `TrialReset`).
"""

from __future__ import annotations

import hashlib

from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.resume import Resume, Resumption


def compute_end_key(spec: ExperimentSpec) -> str:
    """What an end is recorded with.

    That is a digest of the limits, how many configurations search.initial held, and the id of the last request to
    resume.
    """
    limits = f"{spec.search.max_trials} {spec.stop.model_dump_json(exclude_defaults=True)}"
    return f"{hashlib.sha256(limits.encode()).hexdigest()[:12]}+{len(spec.search.initial)}/{_resume(spec).id}"


def is_asked(status: ExperimentStatus, spec: ExperimentSpec) -> bool:
    """Whether a user explicitly asks to resume an ended experiment."""
    return status.ended_by.partition("/")[2] != _resume(spec).id


def has_other_limits(status: ExperimentStatus, spec: ExperimentSpec) -> bool:
    """Whether the limits are others than those that the experiment ended by, as far as these are known.

    Ends that were recorded before search.initial could grow say nothing of its length.
    """
    recorded, present = (key.partition("/")[0].partition("+") for key in (status.ended_by, compute_end_key(spec)))
    return bool(recorded[0]) and (recorded != present if recorded[1] else recorded[0] != present[0])


def build_resumption(status: ExperimentStatus, spec: ExperimentSpec) -> Resumption:
    """What is recorded when the experiment resumes."""
    resume = _resume(spec)
    return Resumption(
        run_generation=read_run_generation(status) + 1,
        unfinished=resume.unfinished,
        errored=resume.errored,
        finished=resume.finished,
    )


def read_run_generation(status: ExperimentStatus) -> int:
    """How many times the experiment has resumed after an end."""
    return status.resumption.run_generation if status.resumption is not None else 0


def _resume(spec: ExperimentSpec) -> Resume:
    return spec.resume or Resume()
