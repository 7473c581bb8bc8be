"""`python -m podtune.dashboard`, which is `podtune-dashboard`."""

from podtune.dashboard.server.entry import start_dashboard

if __name__ == "__main__":
    raise SystemExit(start_dashboard())
