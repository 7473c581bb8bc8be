"""What people write who log to MLflow: the fluent API, autologging, a model, a search for the best run."""

import mlflow
import mlflow.sklearn
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

mlflow.set_experiment("iris")
with mlflow.start_run(run_name="by hand") as run:
    mlflow.log_param("c", 0.5)
    mlflow.log_params({"penalty": "l2", "solver": "lbfgs"})
    mlflow.set_tag("team", "flowers")
    for step in range(3):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
        mlflow.log_metric("accuracy", step / 4, step=step)
    mlflow.log_metrics({"loss": 0.1, "accuracy": 0.9}, step=3)
    mlflow.log_dict({"a": 1}, "a.json")
    with mlflow.start_run(nested=True):
        mlflow.log_metric("accuracy", 0.99)
known = mlflow.get_run(run.info.run_id)
assert known.data.metrics["accuracy"] == 0.9, known
assert known.data.params["penalty"] == "l2"
assert known.info.status == "FINISHED"
assert known.data.tags["team"] == "flowers"

mlflow.sklearn.autolog()
model = LogisticRegression(max_iter=200)
data, labels = load_iris(return_X_y=True)
with mlflow.start_run():
    model.fit(data, labels)
    model.score(data, labels)
    mlflow.log_metric("accuracy", model.score(data, labels), step=10)
    info = mlflow.sklearn.log_model(model, name="model", serialization_format="cloudpickle")
assert list(mlflow.sklearn.load_model(info.model_uri).predict(data[:1])) == list(model.predict(data[:1]))
assert len(mlflow.search_runs(experiment_names=["iris"])) == 3
