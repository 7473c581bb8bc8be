"""The dashboard on a living cluster: pages hear from their stream what happens, and show it."""

from __future__ import annotations

import re
import signal

from playwright.sync_api import expect

from e2e.browser.chromium import open_browser
from e2e.browser.examination import find_flaws, find_violations
from e2e.browser.visitor import visit
from e2e.experiments import counter, experiment
from e2e.kubernetes import DEADLINE, Kubernetes
from e2e.tests.dashboard.conftest import Dashboard
from e2e.tests.dashboard.small_experiments import HELD
from e2e.trials import finish


def test_an_open_page_sees_a_trial_appear_and_end_and_its_experiment_go(
    namespace: Kubernetes, dashboard: Dashboard
) -> None:
    assert "No experiments" in dashboard.read("")
    namespace.apply(experiment("seen", counter(HELD), search={"algorithm": "random", "maxTrials": 1}))
    dashboard.follow("", lambda page: "experiments/" in page and "/seen/" in page)
    base = f"experiments/{namespace.namespace}/seen/"
    trial = f"{base}trials/seen-0"
    dashboard.follow(trial, lambda page: bool(re.search(r"<h1>seen-0 <span class=\"state running\">", page)))
    finish(namespace, "seen")
    ended = dashboard.follow(trial, lambda page: bool(re.search(r"<h1>seen-0 <span class=\"state done\">", page)))
    value = namespace.get("trials.podtune.dev", "seen-0")["status"]["bestValue"]
    assert f"{float(value):.4g}" in ended
    dashboard.follow(base, lambda page: 'class="badge complete"' in page)
    namespace.kubectl("delete", "experiments.podtune.dev", "seen", "--wait=false")
    dashboard.follow(base, lambda page: "seen was deleted" in page)
    dashboard.program.send_signal(signal.SIGINT)
    _, errors = dashboard.program.communicate(timeout=DEADLINE)
    assert dashboard.program.returncode == 0
    assert errors == f"reading namespace {namespace.namespace}\n"


def test_a_running_trial_shows_the_end_of_its_log_and_its_manifest(namespace: Kubernetes, dashboard: Dashboard) -> None:
    says = {"HOLD_AT": "3", "EPOCHS": "6"}
    container = counter(says)
    container["command"] = ["sh", "-c", 'echo "<the first line>"; exec "$@"', "sh", *container["command"]]
    namespace.apply(experiment("read", container, search={"algorithm": "random", "maxTrials": 1}))
    trial = f"experiments/{namespace.namespace}/read/trials/read-0"
    dashboard.follow("", lambda page: "experiments/" in page and "/read/" in page)
    page = dashboard.follow(trial, lambda page: bool(re.search(r"<h1>read-0 <span class=\"state running\">", page)))
    assert "show the last lines</a>" in page
    assert re.search(r'<pre id="text"[^>]*>&lt;the first line&gt;', dashboard.read(f"{trial}/log"))
    manifest = dashboard.read(f"{trial}/manifest")
    assert f"uid: {namespace.get('trials.podtune.dev', 'read-0')['metadata']['uid']}" in manifest
    assert "managedFields" not in manifest
    overview = dashboard.read(f"experiments/{namespace.namespace}/read/")
    assert "It waits for read-0 to train." in overview
    finish(namespace, "read")


def test_a_browser_shows_an_experiment_from_its_first_trial_to_its_end_without_a_click(
    namespace: Kubernetes, dashboard: Dashboard
) -> None:
    expect.set_options(timeout=DEADLINE * 1000)
    with open_browser() as browser, visit(browser, dashboard.address) as visitor:
        page = visitor.open()
        expect(page.get_by_text("No experiments")).to_be_visible()
        namespace.apply(experiment("watched", counter(HELD), search={"algorithm": "random", "maxTrials": 1}))
        expect(page.get_by_role("link", name="watched").first).to_be_visible()
        visitor.open(f"experiments/{namespace.namespace}/watched/")
        curves = page.locator("section[aria-labelledby=curves]")
        expect(curves.locator(".legend")).to_contain_text("Running 1")
        finish(namespace, "watched")
        expect(page.locator(".badge")).to_have_text("Complete")
        value = namespace.get("trials.podtune.dev", "watched-0")["status"]["bestValue"]
        expect(page.locator(".hero .value")).to_have_text(f"{float(value):.4g}")
        assert not find_violations(page) + find_flaws(page)
        assert not visitor.list_problems()
