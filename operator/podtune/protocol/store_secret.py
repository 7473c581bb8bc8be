"""The keys of a Secret with a store's credentials; of all that it may hold, agents are given these alone."""

from __future__ import annotations

ACCESS_KEY_ID = "accessKeyID"
SECRET_ACCESS_KEY = "secretAccessKey"
SESSION_TOKEN = "sessionToken"
"""Of credentials that expire; may be left out."""
OF_S3 = (ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN)

SERVICE_ACCOUNT_KEY = "serviceAccountKey"
"""The JSON file with the key of a Google service account."""
OF_GCS = (SERVICE_ACCOUNT_KEY,)

ACCOUNT_KEY = "accountKey"
SAS_TOKEN = "sasToken"
TENANT_ID = "tenantID"
CLIENT_ID = "clientID"
CLIENT_SECRET = "clientSecret"
"""Of a service principal, with its tenant and its own id."""
OF_AZURE = (ACCOUNT_KEY, SAS_TOKEN, TENANT_ID, CLIENT_ID, CLIENT_SECRET)
