"""Packs a Python function, and modules that it needs, so that it travels to trials in a ConfigMap.

    packed = pack_function(train, modules=[helpers])
    packed.command     # what runs it in a pod
    packed.files       # path and text of what it is made of

What can't travel is refused with its name and the way that works.
"""

from podtune.client.packing.function import pack_function
from podtune.client.packing.modules import PackingError
from podtune.client.packing.packed import PackedFunction

__all__ = ["PackedFunction", "PackingError", "pack_function"]
