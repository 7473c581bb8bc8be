"""The agent's image holds Python, the AWS SDK and us: nothing else can be imported there."""

import json
import subprocess
import sys

SDK = {"boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3"}
PROGRAM = """
import json, sys
before = set(sys.modules)
import podtune.agent.main
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules.keys() - before})))
"""


def test_the_agent_needs_nothing_that_its_image_does_not_have() -> None:
    loaded = json.loads(subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True).stdout)
    others = {name for name in loaded if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert others - SDK == {"podtune"}
