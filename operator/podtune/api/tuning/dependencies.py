"""Relations between the parameters of a search space: conditions, expressions and constraints.

Conditions (`when`) say which parameters exist, and are evaluated first. Expressions compute further values from these
parameters. Constraints then refuse whole configurations. Impossible relations are refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from podtune.api.base import FieldError
from podtune.api.expressions.expression import Expression
from podtune.api.tuning.domain_values import find_own_value, has_distinct_values
from podtune.api.tuning.search_space import Parameter, Scalar, format_value

Conditions = Mapping[str, Collection[str]]
"""The values, as `format_value` writes them, that each parent of a parameter has to have one of."""


class Dependencies:
    """The relations between parameters.

    Attributes:
        conditions: The conditions of each parameter, in the manifest's order; empty where it always exists.
        order: Names of all parameters that are sampled or fixed, parents before their children.
        expressions: The computed parameters, each after those that it uses.
        closures: The conditions of each parameter together with those of its parents, and of theirs.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        """Takes in the parameters of a search space.

        Raises:
            FieldError: A condition or an expression refers to an unknown parameter or value, or they are circular; the
                path starts at the Experiment's spec.
        """
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._places = {parameter.name: place for place, parameter in enumerate(parameters)}
        self.conditions: Mapping[str, Conditions] = {
            parameter.name: {parent: self._list_allowed(parameter, parent) for parent in parameter.when}
            for parameter in parameters
        }
        chosen = [parameter.name for parameter in parameters if parameter.expression is None]
        self.order = self._sort(chosen, self.conditions, "when")
        computed = {p.name: Expression(p.expression) for p in parameters if p.expression is not None}
        for name, expression in computed.items():
            self.check_names(expression, f"{self._format_path(name)}.expression")
        uses = {name: [used for used in expression.names if used in computed] for name, expression in computed.items()}
        self.expressions: Mapping[str, Expression] = {
            name: computed[name] for name in self._sort(list(computed), uses, "expression")
        }
        self.closures = self._compute_closures()

    def parse_constraints(self, texts: Sequence[str]) -> Sequence[Expression]:
        """Reads constraints.

        Raises:
            FieldError: One refers to an unknown parameter, or to none.
        """
        expressions = [Expression(text) for text in texts]
        for place, expression in enumerate(expressions):
            self.check_names(expression, f"constraints[{place}]")
            if not expression.names:
                raise FieldError(
                    f"constraints[{place}]", f"{expression.text!r} names no parameter; name one, or remove it"
                )
        return expressions

    def _list_allowed(self, parameter: Parameter, parent: str) -> Collection[str]:
        path = f"{self._format_path(parameter.name)}.when.{parent}"
        upper = self._parameters.get(parent)
        if upper is None or parent == parameter.name:
            known = ", ".join(name for name in self._parameters if name != parameter.name) or "none"
            raise FieldError(path, f"{parent!r} is not another parameter; correct it (others: {known})")
        if upper.expression is not None:
            raise FieldError(path, f"{parent!r} is computed; put the condition on what it is computed from")
        if not has_distinct_values(upper):
            raise FieldError(path, f"{parent!r} is an interval, so a condition can't name its values; give it a step")
        values = [(place, value, find_own_value(upper, value)) for place, value in enumerate(parameter.when[parent])]
        for place, value, own in values:
            if own is None:
                problem = f"{format_value(value)!r} is not a value of {parent}; remove or correct it"
                raise FieldError(f"{path}[{place}]", f"{problem}{_describe_choices(upper)}")
        return [format_value(own) for _, _, own in values if own is not None]

    def check_names(self, expression: Expression, path: str) -> None:
        """Checks that an expression can be computed from parameters.

        Raises:
            FieldError: It uses one that does not exist, or that holds lists or maps.
        """
        for name in expression.names:
            if name not in self._parameters:
                known = ", ".join(self._parameters)
                raise FieldError(
                    path, f"{expression.text!r} uses {name!r}, which is not a parameter (parameters: {known})"
                )
            if self._parameters[name].holds_json:
                problem = f"{expression.text!r} uses {name!r}, which holds lists or maps"
                remedy = "give the choices names that the program maps to them, and compute with these"
                raise FieldError(path, f"{problem}, and expressions can't compute with them; {remedy}")

    def _compute_closures(self) -> Mapping[str, Conditions]:
        """The conditions of each parameter together with those of its parents, and of theirs."""
        closures: dict[str, Mapping[str, frozenset[str]]] = {}
        for name in (*self.order, *self.expressions):
            every = {parent: frozenset(values) for parent, values in self.conditions[name].items()}
            for parent in self.conditions[name]:
                for farther, values in closures[parent].items():
                    every[farther] = every.get(farther, values) & values
            for parent, values in every.items():
                if not values:
                    problem = f"{name!r} never exists: it needs values of {parent} that exclude each other; change when"
                    raise FieldError(f"{self._format_path(name)}.when", problem)
            closures[name] = every
        return closures

    def _sort(self, names: Sequence[str], needs: Mapping[str, Collection[str]], field: str) -> Sequence[str]:
        """The names in their order, but each after what it needs."""
        done: dict[str, None] = {}

        def visit(name: str, trail: tuple[str, ...]) -> None:
            if name in trail:
                circle = " → ".join((*trail[trail.index(name) :], name))
                raise FieldError(f"{self._format_path(name)}.{field}", f"is circular ({circle}); remove one of them")
            if name not in done:
                for needed in needs[name]:
                    visit(needed, (*trail, name))
                done[name] = None

        for name in names:
            visit(name, ())
        return list(done)

    def _format_path(self, name: str) -> str:
        return f"parameters[{self._places[name]}]"


def exists(conditions: Conditions, values: Mapping[str, Scalar]) -> bool:
    """Whether a parameter with these conditions exists beside the values of those parameters that do."""
    return all(parent in values and format_value(values[parent]) in allowed for parent, allowed in conditions.items())


def _describe_choices(parameter: Parameter) -> str:
    if parameter.choice is None:
        return ""
    return f" (values: {', '.join(map(format_value, parameter.choice.values)):.256})"
