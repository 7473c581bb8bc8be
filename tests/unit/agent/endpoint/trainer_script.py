"""The callback that a Trainer of transformers reports by, driven as a Trainer drives it: that needs PyTorch itself."""

from types import SimpleNamespace

from transformers.integrations.integration_utils import KubeflowCallback, get_available_reporting_integrations

assert "kubeflow" in get_available_reporting_integrations()
KubeflowCallback._MIN_UPDATE_INTERVAL = 0.0  # seconds; a test doesn't wait for them
callback = KubeflowCallback()
state = SimpleNamespace(is_world_process_zero=True, global_step=0, max_steps=20, epoch=0.0)
callback.on_train_begin(None, state, None)
for step in range(1, 21):
    state.global_step, state.epoch = step, step / 5
    if step % 5 == 0:
        callback.on_log(None, state, None, {"loss": 2 / step, "grad_norm": 1.0, "epoch": state.epoch})
    callback.on_step_end(None, state, None)
    if step % 10 == 0:
        evaluated = {"eval_loss": 1 / step, "eval_runtime": step / 10, "epoch": state.epoch}
        callback.on_log(None, state, None, evaluated)
callback.on_log(None, state, None, {"train_runtime": 9.0, "train_loss": 0.3, "epoch": state.epoch})
callback.on_train_end(None, state, None)
