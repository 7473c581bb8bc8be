"""Compresses a text with zlib: which settings make it small, and which need little memory?"""

import argparse
import inspect
import zlib

from podtune import trial

params = trial.params({"level": 6, "window_bits": 15, "memory_level": 8})
text = inspect.getsource(argparse).encode()

level, window_bits, memory_level = params["level"], params["window_bits"], params["memory_level"]
compressor = zlib.compressobj(level, zlib.DEFLATED, window_bits, memory_level)
size = len(compressor.compress(text) + compressor.flush())
memory = (1 << (window_bits + 2)) + (1 << (memory_level + 9))  # bytes, by zlib's manual

trial.report({"ratio": len(text) / size, "memory_kib": memory / 1024})
