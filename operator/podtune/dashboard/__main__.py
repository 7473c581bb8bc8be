"""`python -m podtune.dashboard`, which is `podtune-dashboard`."""

from podtune.dashboard.main import main

if __name__ == "__main__":
    raise SystemExit(main())
