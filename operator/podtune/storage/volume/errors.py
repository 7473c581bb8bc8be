"""From what the operating system says of a volume to `StoreError`: a sentence with the volume and the remedy."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from podtune.storage import errors
from podtune.storage.address import FileAddress, VolumeAddress
from podtune.storage.directory import NotAFile

_MISSING = frozenset({errno.ENOENT})
_DENIED = frozenset({errno.EACCES, errno.EPERM})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REFUSED = frozenset(
    {errno.ENAMETOOLONG, errno.EINVAL, errno.ENOTDIR, errno.EISDIR, errno.EILSEQ, errno.ELOOP, errno.ENOTEMPTY}
)
_UNABLE = frozenset({errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP})


@contextmanager
def translate_os_errors(address: VolumeAddress | FileAddress, doing: str) -> Iterator[None]:
    """Turns errors of the operating system into `StoreError`s."""
    try:
        yield
    except OSError as error:
        raise _describe(address, doing, error) from error


def _describe(address: VolumeAddress | FileAddress, doing: str, error: OSError) -> errors.StoreError:
    where, code, said = address.where, error.errno, error.strerror or str(error)
    if isinstance(error, NotAFile) or code in _MISSING:
        return errors.NotFound(f"{where} does not hold what was asked for while {doing}")
    if code in _DENIED:
        group = os.getegid()
        return errors.AccessDenied(
            f"{where} does not allow {doing} ({said}); give its root directory to group {group} (chgrp {group}, "
            "chmod g+rwxs), or set securityContext.fsGroup in trialTemplate"
        )
    if code == errno.EROFS:
        return errors.AccessDenied(
            f"{where} is mounted read-only, which does not allow {doing}; use a volume that can be written, or see why "
            "the node has remounted it"
        )
    if code in _FULL:
        return errors.OutOfSpace(
            f"{where} is full while {doing} ({said}); enlarge the claim, or delete what is not needed"
        )
    if code in _REFUSED or code in _UNABLE:
        return errors.RequestRejected(f"{where} refuses {doing} ({said}); see what it says")
    return errors.Unreachable(
        f"{where} does not answer while {doing} ({said}); if it stays so, delete the pod, and the next one mounts the "
        "volume anew"
    )
