"""The pages of an action: what will happen, the form that asks for it, and what has been asked for."""

from __future__ import annotations

import asyncio
from typing import Protocol

from aiohttp import web

from podtune.cli.client.api_client import Api
from podtune.cli.errors import CliError, explain_error
from podtune.dashboard.access.session import is_from_own_page, read_form
from podtune.dashboard.access.visit import VISIT, Visit
from podtune.dashboard.actions.offers import Offer, ViewerAction, list_offers
from podtune.dashboard.actions.requests import ActionTarget, request_action
from podtune.dashboard.addresses import lead_to
from podtune.dashboard.pages.context import find_rows, pick_row
from podtune.dashboard.rendering import render_page
from podtune.dashboard.server.logs import get_field_logger
from podtune.kube.errors import ApiError, ApiRefusal


class ViewerApi(Protocol):
    """Opens the API server as a viewer."""

    def __call__(self, token: str) -> Api:
        """With their token, and nothing of ours."""


CONNECT_AS = web.AppKey("connect_as", ViewerApi)
OUTCOMES = {
    ViewerAction.PAUSE: "The pause was asked for. Running trials save a checkpoint first, which may take a moment.",
    ViewerAction.RESUME: "It was asked to go on. Trials start as soon as slots are free.",
    ViewerAction.STOP: "The stop was asked for. Running trials end after their last checkpoint.",
    ViewerAction.RETRY: "The retry was asked for. A new attempt starts when the present one has ended.",
}
_log = get_field_logger(__name__)


def add_actions(app: web.Application, connect_as: ViewerApi) -> None:
    """Adds the addresses of all actions."""
    app[CONNECT_AS] = connect_as
    one = "/experiments/{namespace}/{experiment}"
    for base in (f"{one}/actions/{{action}}", f"{one}/trials/{{trial}}/actions/{{action}}"):
        app.add_routes([web.get(base, _ask), web.post(base, _act), web.get(f"{base}/done", _say_done)])


async def _ask(request: web.Request) -> web.Response:
    """Says what will happen, and has it confirmed."""
    action, target = _find_action(request), _find_target(request)
    visit, offer = request[VISIT], _find_offer(request, action)
    if problem := _find_problem(visit, offer, target):
        return _render_refusal(request, target, problem, 403 if offer is not None else 409)
    assert offer is not None  # else there is a problem
    assert visit.session is not None
    return render_page(
        request,
        "actions/confirm.html",
        target=target,
        offer=offer,
        form_token=visit.session.make_form_token(f"{action} {target.path}"),
    )


async def _act(request: web.Request) -> web.Response:
    """Has it done, where the form is one that this session was given."""
    action, target = _find_action(request), _find_target(request)
    visit, form = request[VISIT], await read_form(request)
    form_token, attempt = str(form.get("form", "")), str(form.get("attempt", ""))
    if visit.session is None or not (
        is_from_own_page(request) and visit.session.has_made(form_token, f"{action} {target.path}")
    ):
        return _render_refusal(request, target, "This form is not of your session. Ask for it again.", 403)
    if not attempt.isdecimal():
        return _render_refusal(request, target, "The form is incomplete. Ask for it again.", 400)
    try:
        api = request.app[CONNECT_AS](visit.session.token)
        sentence = await asyncio.to_thread(request_action, api, action, target, int(attempt[:9]))
    except (CliError, ApiError) as error:
        _log_action("action refused", visit, action, target, explain_error(error))
        return _render_refusal(request, target, explain_error(error), _find_status(error))
    _log_action("action asked for", visit, action, target, sentence)
    return lead_to(f"./{action}/done")


def _log_action(event: str, visit: Visit, action: ViewerAction, target: ActionTarget, message: str) -> None:
    """Puts on record who asked for what, and what came of it."""
    _log.info(
        event,
        viewer=visit.viewer.name,
        viewer_action=str(action),
        namespace=target.namespace,
        experiment=target.experiment,
        trial=target.trial,
        message=message,
    )


async def _say_done(request: web.Request) -> web.Response:
    action, target = _find_action(request), _find_target(request)
    find_rows(request)
    return render_page(request, "actions/done.html", target=target, action=action, sentence=OUTCOMES[action])


def _find_action(request: web.Request) -> ViewerAction:
    try:
        action = ViewerAction(request.match_info["action"])
    except ValueError as error:
        raise web.HTTPNotFound from error
    if action is ViewerAction.RETRY and "trial" not in request.match_info:
        raise web.HTTPNotFound  # there are retries of trials only
    return action


def _find_target(request: web.Request) -> ActionTarget:
    """What an address is about, whether there is such a thing or not."""
    info = request.match_info
    return ActionTarget(info["namespace"], info["experiment"], info.get("trial", ""))


def _find_offer(request: web.Request, action: ViewerAction) -> Offer | None:
    """The action with what it does; None where the state doesn't allow it.

    Raises:
        NotThere: There is no such experiment, or no such trial in it.
    """
    experiment, trial = find_rows(request), request.match_info.get("trial", "")
    offers = list_offers(experiment, pick_row(experiment, trial) if trial else None)
    return next((offer for offer in offers if offer.action == action), None)


def _find_problem(visit: Visit, offer: Offer | None, target: ActionTarget) -> str:
    """Why an action can't be asked for; empty where it can."""
    if visit.session is None:
        return "A proxy says who you are. Actions take your own token: log in with it."
    if not visit.can_act:
        plural = "trials" if target.trial else "experiments"
        return f"{visit.viewer.name} needs the right to patch {plural}.podtune.dev {target.name} in {target.namespace}."
    return "" if offer is not None else "Its present state does not allow that. It may have changed a moment ago."


def _find_status(error: Exception) -> int:
    if isinstance(error, ApiRefusal):
        return error.status
    return web.HTTPConflict.status_code if isinstance(error, CliError) else web.HTTPServiceUnavailable.status_code


def _render_refusal(request: web.Request, target: ActionTarget, message: str, status: int) -> web.Response:
    return render_page(
        request,
        "actions/refused.html",
        status=status,
        target=target,
        action=_find_action(request),
        message=message,
        can_log_in=request[VISIT].session is None,
    )
