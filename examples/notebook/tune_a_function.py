"""Tunes a function of this file: its source travels to the trials, so there is no image to build.

It prints the manifest: for `podtune run -` on this machine, for `kubectl apply -f -` on a cluster.
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from podtune.client import Experiment, tune


def train(config):
    images, digits = load_digits(return_X_y=True)
    images = images / 16
    model = SGDClassifier(alpha=config["alpha"], penalty=config["penalty"], random_state=0)
    for epoch in range(1, 6):
        model.partial_fit(images[:1400], digits[:1400], classes=range(10))
        yield {"epoch": epoch, "accuracy": float(model.score(images[1400:], digits[1400:]))}


experiment = Experiment.from_function(
    train,
    name="function",
    metric="accuracy",
    mode="max",
    parameters={"alpha": tune.loguniform(1e-6, 1e-1), "penalty": ["l2", "l1"]},
    image="localhost/podtune-examples:dev",  # yours: Python with scikit-learn
    search={"algorithm": "tpe", "seed": 1},
    max_trials=16,
    max_concurrent_trials=2,
    resources={"requests": {"cpu": "100m", "memory": "192Mi"}},
    spec={"trialTemplate": {"spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000}}}},
)

if __name__ == "__main__":
    print(experiment.to_yaml())
