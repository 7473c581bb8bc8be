"""Names of other objects in the two resources. They are strict, because paths on the API server are built from them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from podtune.api.base import Form
from podtune.api.names import OBJECT_NAME

_REMEDY = (
    "is not a valid object name; use lowercase letters, digits, - and ., with a letter or digit on both sides of each ."
)
ObjectName = Annotated[str, Field(max_length=253), Form(OBJECT_NAME, _REMEDY)]
"""Name of an object of any kind."""
OwnName = Annotated[str, Field(min_length=1, max_length=63), Form(OBJECT_NAME, _REMEDY)]
"""Name of an Experiment or a Trial."""
OptionalOwnName = Annotated[str, Field(max_length=63), Form(f"({OBJECT_NAME})?", _REMEDY)]
"""Name of an Experiment or a Trial, or empty where none is meant."""
RecordedName = Annotated[str, Field(pattern=f"^({OBJECT_NAME})?$")]
"""Name of an object in a status, which only the operator and `import` write: a rule with a message would cost more."""
