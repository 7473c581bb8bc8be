"""The dashboard as the chart installs it: everyone sees and does what their own token lets them."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from e2e.browser.chromium import open_browser
from e2e.browser.examination import find_flaws, find_violations
from e2e.browser.visitor import Visitor, visit
from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment
from e2e.kubernetes import DEADLINE, Kubernetes
from e2e.tests.credentials import NO_CORE_DUMP, find_credentials, list_core_limits
from e2e.tests.dashboard.conftest import Team, await_text, log_in, make_token
from e2e.tests.dashboard.small_experiments import HELD, make_failing, make_population, make_trade_off
from e2e.trials import EXPERIMENTS
from e2e.viewer import DashboardViewer
from podtune.dashboard.access.session import LoginSession


def test_everyone_sees_and_does_what_their_own_token_lets_them(team: Team, cluster: Cluster) -> None:
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

    # What it holds stays with it.
    (pod,) = team.home.list("pods")
    assert list_core_limits(pod) == [NO_CORE_DUMP]
    log = team.home.kubectl("logs", pod["metadata"]["name"])
    assert find_credentials(log, (cluster.s3.access_key, cluster.s3.secret_key)) == set(), log
    assert ours.send("metrics").status == 404, "it has none"


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


def check(visitor: Visitor) -> None:
    """Nothing is wrong with a page as it is."""
    assert not find_violations(visitor.page) + find_flaws(visitor.page)
