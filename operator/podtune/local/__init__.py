"""An experiment on one machine: the operator's own runner, its pods as processes and its objects as files.

`runner` decides as it does in a cluster. `Executor` carries its actions out, `LocalPod` is the kubelet of one pod: it
restores, starts the program and runs the agent's code beside it, in threads of this process.
"""
