# PyTorch as Debian has it: the wheel of PyPI brings CUDA along, and PyTorch's own image is as large.
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE} AS torch
RUN mkdir -p /var/cache/debconf && apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3 python3-torch \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt
