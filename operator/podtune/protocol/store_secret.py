"""The keys of a Secret with a bucket's credentials; of all that it may hold, agents are given these alone."""

from __future__ import annotations

ACCESS_KEY_ID = "accessKeyID"
SECRET_ACCESS_KEY = "secretAccessKey"
SESSION_TOKEN = "sessionToken"
"""Of credentials that expire; may be left out."""
