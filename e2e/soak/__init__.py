"""A working day in short: experiments come and go under faults for 45 minutes, and nothing may grow meanwhile.

`make soak`, or `python -m e2e.soak --minutes 10`. The operator and the agent of a trial that trains all the time are
looked at from outside: their memory, threads, files and sockets.
"""
