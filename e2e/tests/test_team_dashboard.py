"""The dashboard as the chart installs it: everyone sees and does what their own token lets them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

from e2e.browser.chromium import open_browser
from e2e.browser.examination import find_flaws, find_violations
from e2e.browser.visitor import Visitor, visit
from e2e.dashboard import forward
from e2e.devcluster import Cluster
from e2e.experiments import STORE_SECRET, counter, experiment, program, store
from e2e.install import ROOT, Image
from e2e.kubernetes import DEADLINE, Kubernetes, Object, eventually
from e2e.tests.conftest import make_namespace
from e2e.trials import EXPERIMENTS
from e2e.viewer import DashboardViewer
from podtune.dashboard.access.session import LoginSession

PREFIX = "/tuning/podtune"
HELD = {"EPOCHS": "6", "HOLD_AT": "3"}
"""Waits at epoch 3 until it is let go on."""


@dataclass(frozen=True)
class Team:
    """A dashboard of two namespaces, and who looks at it."""

    ours: Kubernetes
    theirs: Kubernetes
    home: Kubernetes
    stranger: DashboardViewer

    @property
    def account(self) -> str:
        """The dashboard's own, as the API server names it."""
        return f"system:serviceaccount:{self.home.namespace}:podtune-dashboard"

    def log_in(self, namespace: Kubernetes, role: str) -> DashboardViewer:
        """Somebody with a role in one of the namespaces."""
        return self.stranger.log_in(make_token(namespace, role))


@pytest.fixture
def team(cluster: Cluster, namespace: Kubernetes) -> Iterator[Team]:
    """The whole chart, but for a second operator, in a namespace of its own under Pod Security "restricted"."""
    theirs, home = make_namespace(cluster, secret=False), make_namespace(cluster)
    with ExitStack() as stack:
        for other in (theirs, home):
            stack.callback(cluster.kubectl, "delete", "namespace", other.namespace, "--wait=false")
        install(home, namespace, theirs)
        stack.callback(cluster.run, ["helm", "uninstall", "podtune", "-n", home.namespace])
        port = stack.enter_context(forward(cluster, "podtune-dashboard", home.namespace))
        address = f"http://127.0.0.1:{port}{PREFIX}/"
        yield Team(namespace, theirs, home, DashboardViewer(address))


def make_token(namespace: Kubernetes, role: str) -> str:
    """The token of somebody new with a role in a namespace."""
    namespace.kubectl("create", "serviceaccount", role)
    account = f"{namespace.namespace}:{role}"
    namespace.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--serviceaccount={account}")
    return namespace.kubectl("create", "token", role).strip()


def install(home: Kubernetes, ours: Kubernetes, theirs: Kubernetes) -> None:
    """The dashboard of two namespaces, which may read the store of the first."""
    image, store_of_ours = Image("dashboard"), store(home.cluster)
    values = {
        "replicas": "0",
        "watchNamespaces": f"{{{ours.namespace},{theirs.namespace}}}",
        "rbac.aggregateToDefaultRoles": "false",
        "dashboard.enabled": "true",
        "dashboard.image.repository": image.repository,
        "dashboard.image.tag": "dev",
        "dashboard.nodeSelector.podtune\\.dev/role": "system",
        "dashboard.pathPrefix": PREFIX,
        "dashboard.actions": "true",
        "dashboard.stores[0].namespace": ours.namespace,
        "dashboard.stores[0].secret": STORE_SECRET,
        **{f"dashboard.stores[0].store.{field}": store_of_ours[field] for field in ("bucket", "prefix", "endpoint")},
    }
    sets = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    options = ["-n", home.namespace, "--wait", "--timeout=300s"]
    said = home.cluster.run(["helm", "install", "podtune", ROOT / "charts" / "podtune", *options, *sets], timeout=330)
    assert "create token" in said.stdout


def test_everyone_sees_and_does_what_their_own_token_lets_them(team: Team) -> None:
    team.theirs.apply(experiment("foreign", counter(), suspend=True))
    theirs = team.log_in(team.theirs, "view")
    ours = team.log_in(team.ours, "view")

    # Nothing without a token, not even a name.
    base = f"experiments/{team.ours.namespace}/native/"
    for path in ("", base, f"experiments/{team.theirs.namespace}/foreign/", f"{base}trials.csv", "events"):
        answer = team.stranger.send(path)
        assert answer.status == 401, (path, answer)
        assert "foreign" not in answer.text.replace(path, "")

    # An open list hears of a new experiment, and its page of a trial that runs.
    team.ours.apply(experiment("native", counter(HELD), search={"algorithm": "random", "maxTrials": 1}))
    listed = ours.follow("", lambda page: f"{base}" in page)
    assert "/foreign/" not in listed
    ours.follow(
        f"{base}trials/native-0", lambda page: bool(re.search('<h1>native-0 <span class="state running">', page))
    )

    # Each their own.
    assert "/foreign/" in theirs.follow("", lambda page: "/foreign/" in page)
    assert "/native/" not in theirs.read("")
    assert theirs.send(base).status == 403
    assert ours.send(f"experiments/{team.theirs.namespace}/foreign/").status == 403

    # The role view shows no buttons, and a form that somebody makes up goes no further than the API server.
    pause = f"{base}actions/pause"
    assert "actions/pause" not in ours.read(base)
    assert ours.send(pause).status == 403
    forged = ours.send(pause, {"form": make_form(ours, f"pause {team.ours.namespace}/native"), "attempt": "0"})
    assert forged.status == 403
    assert "cannot patch resource" in forged.text
    assert theirs.send(pause).status == 403
    assert not is_suspended(team)

    # Who may edit says yes to what will happen.
    editor = team.log_in(team.ours, "edit")
    assert "actions/pause" in editor.read(base)
    form = dict(re.findall('<input type="hidden" name="([a-z]+)" value="([^"]*)">', editor.read(pause)))
    assert editor.send(pause, {**form, "form": "0"}).status == 403
    assert not is_suspended(team)
    assert editor.send(pause, form).status == 303
    assert is_suspended(team)
    ours.follow(base, lambda page: 'class="badge suspended"' in page)


def make_form(viewer: DashboardViewer, purpose: str) -> str:
    """A form's token, which a viewer can make for their own session: it keeps other sites out, not them."""
    began, _, token = viewer.cookie.partition("=")[2].partition(".")
    return LoginSession(token, int(began)).make_form_token(purpose)


def is_suspended(team: Team) -> bool:
    return bool(team.ours.get(EXPERIMENTS, "native")["spec"].get("suspend"))


def test_the_dashboard_itself_may_read_no_secret_and_write_nothing(team: Team) -> None:
    def may(namespace: Kubernetes, *question: str) -> bool:
        words = ["kubectl", "auth", "can-i", *question, "-n", namespace.namespace, f"--as={team.account}"]
        return team.home.cluster.run(words, check=False).stdout.strip() == "yes"

    for namespace in (team.ours, team.theirs, team.home):
        assert not any(may(namespace, verb, "secrets") for verb in ("get", "list", "watch"))
        assert not any(may(namespace, verb, EXPERIMENTS) for verb in ("create", "patch", "update", "delete"))
        assert not may(namespace, "get", "pods", "--subresource=log")
        assert not may(namespace, "create", "pods", "--subresource=exec")
    assert may(team.ours, "watch", EXPERIMENTS)
    assert not may(team.home, "list", EXPERIMENTS)
    assert may(team.home, "create", "tokenreviews.authentication.k8s.io")
    assert not may(team.home, "get", "nodes")


def test_two_people_see_their_own_experiments_in_a_browser(team: Team, cluster: Cluster) -> None:
    team.ours.apply(make_failing())
    team.ours.apply(make_population(cluster))
    team.theirs.apply(make_trade_off())
    expect.set_options(timeout=DEADLINE * 1000)
    address = team.stranger.address
    with open_browser() as browser, visit(browser, address) as alice, visit(browser, address) as bob:
        token = make_token(team.ours, "view")
        log_in(alice, token, ["failing", "population"])
        log_in(bob, make_token(team.theirs, "view"), ["trade-off"])
        ours = f"experiments/{team.ours.namespace}/"

        # What goes on while a page is open appears on it.
        page = alice.open(f"{ours}failing/")
        expect(page.locator("section[aria-labelledby=curves] .legend")).to_contain_text("Failed 1")
        check(alice)
        page = alice.open(f"{ours}failing/parameters")
        expect(page.locator("section[aria-labelledby=failures] svg.frame")).to_be_visible()
        check(alice)
        page = alice.open(f"{ours}population/scheduler")
        expect(page.locator(".family .arc").first).to_be_attached()
        check(alice)

        # What lies in the store, with the Secret that the dashboard has been given, and what is told of a pod.
        trial = f"{ours}population/trials/population-0"
        for view, text in {"results": " in the store at ", "checkpoints": ' bytes">', "pod": "<td>Scheduled"}.items():
            await_text(team.stranger.log_in(token), f"{trial}/{view}", text)
            alice.open(f"{trial}/{view}")
            check(alice)

        page = bob.open(f"experiments/{team.theirs.namespace}/trade-off/")
        expect(page.locator(".badge")).to_have_text("Complete")
        expect(page.locator("section[aria-labelledby=front] svg.frame")).to_be_visible()
        check(bob)
        page = bob.open(f"{ours}failing/")
        expect(page.get_by_role("heading", level=1)).to_contain_text("You may not see the experiments of")
        for visitor in (alice, bob):
            visitor.pardon("a status of 401")
            visitor.pardon("a status of 403")
            assert not visitor.list_problems()


def await_text(viewer: DashboardViewer, path: str, text: str) -> None:
    """Reads a page that does not follow the cluster again and again until it has a text."""
    eventually(lambda: viewer.read(path), lambda page: text in page, what=f"{path} has {text!r}")


def make_failing() -> Object:
    """Three trials, of which the first fails whenever it is tried."""
    container = counter({"CRASH_AT": "2", "CRASH_ALWAYS": "true", "CRASH_TRIAL": "0"})
    parameters = [{"name": "base", "float": {"min": 0.5, "max": 1.0}}, {"name": "width", "int": {"min": 1, "max": 64}}]
    search = {"algorithm": "random", "maxTrials": 3, "seed": 1}
    failures = {"maxFailures": 0}
    return experiment(
        "failing", container, parameters=parameters, search=search, failures=failures, maxConcurrentTrials=3
    )


def make_population(cluster: Cluster) -> Object:
    """Trials that go on until they are deleted, and continue from one another."""
    return experiment(
        "population",
        program("population", {"EPOCHS": "1000", "EPOCH_SECONDS": "0.5"}),
        parameters=[{"name": "rate", "float": {"min": 0.1, "max": 1.0}}],
        checkpoints={"store": store(cluster)},
        search={"algorithm": "random", "maxTrials": 4, "seed": 5},
        scheduler={"pbt": {"timeAttribute": "epoch", "interval": 2, "resampleProbability": 0}},
        maxConcurrentTrials=4,
    )


def make_trade_off() -> Object:
    """Two objectives."""
    objective = {"metric": "value", "mode": "max", "others": [{"metric": "epoch", "mode": "min"}]}
    return experiment("trade-off", counter(), objective=objective)


def log_in(visitor: Visitor, token: str, experiments: list[str]) -> None:
    """Logs in by the form, and sees some experiments."""
    page = visitor.open()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("ul.experiments h2 a")).to_have_text(experiments)


def check(visitor: Visitor) -> None:
    """Nothing is wrong with a page as it is."""
    assert not find_violations(visitor.page) + find_flaws(visitor.page)
