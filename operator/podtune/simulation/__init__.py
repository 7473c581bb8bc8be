"""An experiment in virtual time: the operator's own runner on a model of a cluster, with curves instead of training.

Hours of tuning take seconds. What is modelled is what decisions depend on: how many trials run at once, how long pods,
iterations and checkpoints take, what fails. What is not is the way between operator, API server and agents: it is
instantaneous and loses nothing. Everything follows from the manifest, the curves and the seeds.
"""
