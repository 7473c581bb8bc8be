"""How far an experiment is: what it has used, what it waits for, and when it will end."""
