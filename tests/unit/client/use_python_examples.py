"""The examples of docs/how-to/use-python.md, one after the other, so that mypy checks them."""

from podtune.client import Client, Experiment

client = Client()
experiment = client.create(Experiment.from_yaml("experiment.yaml"))
experiment.wait(timeout="2h")
print(experiment.best.value, experiment.best.parameters)

wide = Experiment.build(
    "digits-wide",
    metric="accuracy",
    mode="max",
    parameters={
        "learning_rate": {"float": {"min": 1e-4, "max": 1e-1, "scale": "log"}},
        "activation": ["relu", "tanh"],
        "epochs": 27,
    },
    image="registry.example/digits:1",
    command=["python", "digits.py"],
    search={"algorithm": "tpe"},
    max_trials=24,
    max_concurrent_trials=4,
)
print(wide.to_yaml())

for snapshot in experiment.watch():
    if snapshot.best is not None and snapshot.best.value > 0.99:
        experiment.stop()

for trial in experiment.trials:
    print(trial.name, trial.state, trial.parameters, trial.best_value)

table = experiment.results_df()
print(table.groupby("trial")["accuracy"].max())

folder = experiment.download_checkpoint("best-model")
trial = experiment.trial(7)
if trial.checkpoint is not None:
    trial.checkpoint.download("latest-of-7")
print(trial.logs())

from podtune.client import StoreOptions

outside = Client(store=StoreOptions(endpoint="https://s3.example.com", own_credentials=True))

print(experiment.pause())
print(experiment.resume())
print(trial.resume(parameters={"learning_rate": 0.01}))
print(trial.stop())

import asyncio

from podtune.client import AsyncClient


async def tune() -> None:
    running = await AsyncClient().get("digits")
    async for progress in running.watch(show=False):
        print(progress)
    best = await running.best()
    print(best.value, best.parameters)


asyncio.run(tune())
