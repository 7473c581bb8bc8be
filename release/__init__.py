"""Makes what a release consists of, each file the same bytes every time: `python -m release.build`."""
