"""The scripts that are tuned as they are, and what is set in an Experiment for each.

To add one, put it into `scripts`, and an entry for it here. The page docs/how-to/settings-by-framework.md shows the
settings; a test compares it with this table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from e2e.experiments import EXAMPLES_IMAGE, RESTRICTED, Object, experiment

SCRIPTS = Path(__file__).parent / "scripts"
CONFIG_MAP = "scripts"
FOLDER = "/scripts"
"""Where the files of `SCRIPTS` are in a pod; programs run there."""


@dataclass(frozen=True, slots=True)
class UnchangedScript:
    """A script, and the Experiment that tunes it: a grid of two values of one parameter.

    Attributes:
        name: The Experiment's.
        heading: What it is, as the page calls it.
        command: Runs it, in `FOLDER`.
        objective: `spec.objective`.
        results: `spec.results`.
        parameter: The parameter's name.
        values: Its two values, the better one first.
        reported: How many results it reports.
        env: Variables of the template.
        image: Has what it imports.
    """

    name: str
    heading: str
    command: Sequence[str]
    objective: Object
    results: Object
    parameter: str
    values: tuple[object, object]
    reported: int
    env: Mapping[str, str] = field(default_factory=dict)
    image: str = EXAMPLES_IMAGE

    def build_experiment(self) -> Object:
        """The Experiment."""
        container = {
            "name": "trial",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": list(self.command),
            "env": [{"name": name, "value": value} for name, value in self.env.items()],
            "workingDir": FOLDER,
            "volumeMounts": [{"name": "scripts", "mountPath": FOLDER}],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
            "securityContext": RESTRICTED,
        }
        volume = {"name": "scripts", "configMap": {"name": CONFIG_MAP, "defaultMode": 0o555}}
        return experiment(
            self.name,
            container,
            objective=self.objective,
            results=self.results,
            parameters=[{"name": self.parameter, "choice": {"values": list(self.values)}}],
            search={"algorithm": "grid", "maxTrials": 2},
            trialTemplate={"spec": {"containers": [container], "volumes": [volume]}},
        )


def make_config_map() -> Object:
    """The ConfigMap with all scripts."""
    files = {path.name: path.read_text(encoding="utf-8") for path in SCRIPTS.iterdir() if path.is_file()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": files}


def _name(parameter: str) -> str:
    return f"$(PODTUNE_PARAM_{parameter})"


UNCHANGED_SCRIPTS = (
    UnchangedScript(
        name="scikit-learn",
        heading="scikit-learn: one line at the end",
        command=["python3", "digits_svc.py", "--C=10", f"--gamma={_name('gamma')}"],
        objective={"metric": "accuracy", "mode": "max"},
        results={"stdout": {"pattern": r"Accuracy: (?P<accuracy>\S+)"}},
        parameter="gamma",
        values=(0.001, 0.1),
        reported=1,
    ),
    UnchangedScript(
        name="shell",
        heading="A shell script with a variable",
        command=["./descend.sh"],
        objective={"metric": "loss", "mode": "min"},
        results={"stdout": {"pattern": r"iteration (?P<iteration>\d+) of \d+: loss (?P<loss>\S+)"}},
        parameter="step",
        values=(0.4, 0.01),
        reported=5,
        env={"STEP": _name("step")},
    ),
    UnchangedScript(
        name="json",
        heading="Lines of JSON",
        command=["python3", "json_lines.py", f"--lr={_name('lr')}"],
        objective={"metric": "val_loss", "mode": "min"},
        results={"stdout": {"pattern": r'"epoch": (?P<epoch>\d+),.*"val_loss": (?P<val_loss>[^,}]+)'}},
        parameter="lr",
        values=(0.1, 0.0001),
        reported=4,
    ),
    UnchangedScript(
        name="katib",
        heading="Katib, MXNet: lines of name=value",
        command=["python3", "katib_style.py", f"--lr={_name('lr')}"],
        objective={"metric": "Validation-accuracy", "mode": "max"},
        results={
            "stdout": {
                "pattern": r"(?P<name>[\w|-]+)\s*=\s*(?P<value>[+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)",
                "last": "Validation-accuracy",
            }
        },
        parameter="lr",
        values=(0.5, 0.01),
        reported=3,
    ),
    UnchangedScript(
        name="keras",
        heading="Keras: fit() with validation data",
        command=["python3", "keras_lines.py"],
        objective={"metric": "val_accuracy", "mode": "max"},
        results={
            "stdout": {"pattern": r"val_accuracy: (?P<val_accuracy>[-+.\de]+) - val_loss: (?P<val_loss>[-+.\de]+)"}
        },
        parameter="units",
        values=(128, 16),
        reported=3,
        env={"UNITS": _name("units")},
    ),
    UnchangedScript(
        name="lightgbm",
        heading="LightGBM: log_evaluation()",
        command=["python3", "lightgbm_lines.py", f"--num-leaves={_name('num_leaves')}"],
        objective={"metric": "binary_logloss", "mode": "min"},
        results={"stdout": {"pattern": r"^\[(?P<iteration>\d+)\].*valid_1's binary_logloss: (?P<binary_logloss>\S+)"}},
        parameter="num_leaves",
        values=(63, 7),
        reported=5,
    ),
    UnchangedScript(
        name="xgboost",
        heading="XGBoost: train() with evals",
        command=["python3", "xgboost_lines.py", f"--eta={_name('eta')}"],
        objective={"metric": "logloss", "mode": "min"},
        results={"stdout": {"pattern": r"^\[(?P<iteration>\d+)\].*eval-logloss:(?P<logloss>\S+)"}},
        parameter="eta",
        values=(0.5, 0.05),
        reported=5,
    ),
    UnchangedScript(
        name="pytorch",
        heading="PyTorch's examples: a sentence for each test set",
        command=["python3", "torch_example.py", f"--gamma={_name('gamma')}"],
        objective={"metric": "loss", "mode": "min"},
        results={
            "stdout": {"pattern": r"Test set: Average loss: (?P<loss>[^,]+), Accuracy: (?P<correct>\d+)/(?P<of>\d+)"}
        },
        parameter="gamma",
        values=(0.9, 0.3),
        reported=3,
    ),
    UnchangedScript(
        name="transformers-4",
        heading="Hugging Face Trainer, any release: dicts",
        command=["python3", "trainer_lines.py", f"--learning_rate={_name('learning_rate')}"],
        objective={"metric": "eval_loss", "mode": "min"},
        results={"stdout": {"pattern": r"'eval_loss': '?(?P<eval_loss>[-+.\de]+).*'epoch': '?(?P<epoch>[-+.\de]+)"}},
        parameter="learning_rate",
        values=(0.00005, 0.000001),
        reported=3,
    ),
    UnchangedScript(
        name="configuration",
        heading="A script that reads a configuration file",
        command=[
            "sh",
            "-c",
            'sed "s/^momentum.*/momentum = $PODTUNE_PARAM_momentum/" config.ini > $PODTUNE_DIR/config.ini && '
            "exec python3 from_config.py $PODTUNE_DIR/config.ini",
        ],
        objective={"metric": "rmse", "mode": "min"},
        results={"stdout": {"pattern": r"epoch (?P<epoch>\d+) rmse (?P<rmse>\S+)"}},
        parameter="momentum",
        values=(0.5, 0.0),
        reported=6,
    ),
    UnchangedScript(
        name="transformers-5",
        heading="Hugging Face Trainer, release 5 or later",
        command=["python3", "trainer_requests.py", _name("x")],
        objective={"metric": "eval_loss", "mode": "min"},
        results={"huggingFace": {}},
        parameter="x",
        values=(0.4, 0.1),
        reported=3,
    ),
    UnchangedScript(
        name="mlflow-fluent",
        heading="MLflow: the fluent API",
        command=["python3", "mlflow_fluent_requests.py", _name("alpha")],
        objective={"metric": "rmse", "mode": "min"},
        results={"mlflow": {}},
        parameter="alpha",
        values=(0.1, 0.9),
        reported=4,
    ),
    UnchangedScript(
        name="mlflow-autolog",
        heading="MLflow: autologging",
        command=["python3", "mlflow_autolog_requests.py", _name("C")],
        objective={"metric": "training_accuracy_score", "mode": "max"},
        results={"mlflow": {}},
        parameter="C",
        values=(10, 0.0001),
        reported=1,
    ),
    UnchangedScript(
        name="wandb",
        heading="Weights & Biases, in offline mode",
        command=["python3", "wandb_offline_file.py", _name("lr")],
        objective={"metric": "val/loss", "mode": "min"},
        results={"wandb": {}},
        parameter="lr",
        values=(0.5, 0.1),
        reported=4,
    ),
)
