"""A CloudFormation template with its parameters put in: what would be created, and how.

Conditions are decided, mappings looked up, texts put together. What only a deployment knows stays a symbol: `<Table>` is
a resource's reference, `<Table.Arn>` an attribute, `<AWS::Region>` a pseudo parameter. So two templates that say the
same in different words become the same data.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable

# The stack's own name is known to whoever deploys it.
STACK_NAME = "longhaul"

_ABSENT = object()
_PLACE = re.compile(r"\$\{([^!}][^}]*)\}")


class Unresolved(Exception):
    """The template names something that is not there, or uses a function that is not known here."""


class Resolver:
    """Resolves the expressions of one template."""

    def __init__(self, template: dict, parameters: dict[str, Any], rename: Callable[[str], str] = str):
        self.template = template
        self.rename = rename
        self.parameters = {}
        for name, declared in template.get("Parameters", {}).items():
            if name in parameters:
                self.parameters[name] = parameters[name]
            elif "Default" in declared:
                self.parameters[name] = declared["Default"]
            elif str(declared["Type"]).startswith("AWS::SSM::"):
                self.parameters[name] = f"<{name}>"
            else:
                raise Unresolved(f"the parameter {name} has no value")
            if declared["Type"] == "CommaDelimitedList" and isinstance(self.parameters[name], str):
                self.parameters[name] = self.parameters[name].split(",")
        unknown = set(parameters) - set(self.parameters)
        if unknown:
            raise Unresolved(f"there are no parameters {sorted(unknown)}")

    def resources(self) -> dict[str, dict]:
        """The resources that would be created, by name."""
        created = {}
        for name, resource in self.template["Resources"].items():
            if "Condition" in resource and not self.condition(resource["Condition"]):
                continue
            created[self.rename(name)] = {
                "Type": resource["Type"],
                "Properties": self.value(resource.get("Properties", {})),
                "DeletionPolicy": resource.get("DeletionPolicy"),
                "UpdateReplacePolicy": resource.get("UpdateReplacePolicy"),
            }
        return created

    def condition(self, name: str) -> bool:
        """Whether a named condition holds."""
        if name not in self.template.get("Conditions", {}):
            raise Unresolved(f"there is no condition {name}")
        return self._test(self.template["Conditions"][name])

    def _test(self, expression: Any) -> bool:
        ((function, argument),) = expression.items()
        match function:
            case "Fn::Equals":
                left, right = (self.value(side) for side in argument)
                return str(left) == str(right)
            case "Fn::Not":
                return not self._test(argument[0])
            case "Fn::And":
                return all(map(self._test, argument))
            case "Fn::Or":
                return any(map(self._test, argument))
            case "Condition":
                return self.condition(argument)
            case _:
                raise Unresolved(f"the condition uses {function}")

    def value(self, expression: Any) -> Any:
        """An expression's value; `None` where it comes to nothing."""
        found = self._value(expression)
        return None if found is _ABSENT else found

    def _value(self, expression: Any) -> Any:
        if isinstance(expression, list):
            return [value for value in map(self._value, expression) if value is not _ABSENT]
        if not isinstance(expression, dict):
            return expression
        if len(expression) == 1:
            ((function, argument),) = expression.items()
            if function == "Ref":
                return self._ref(argument)
            if function == "Condition" and isinstance(argument, str):
                return self.condition(argument)
            if function.startswith("Fn::"):
                return self._call(function, argument)
        values = {name: self._value(value) for name, value in expression.items()}
        return {name: value for name, value in values.items() if value is not _ABSENT}

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _ABSENT
        if name == "AWS::StackName":
            return STACK_NAME
        if name.startswith("AWS::"):
            return f"<{name}>"
        if name in self.parameters:
            return self.parameters[name]
        if name in self.template["Resources"]:
            return f"<{self.rename(name)}>"
        raise Unresolved(f"there is no {name} to refer to")

    def _attribute(self, name: str, attribute: str) -> str:
        if name not in self.template["Resources"]:
            raise Unresolved(f"there is no {name} to take {attribute} of")
        return f"<{self.rename(name)}.{attribute}>"

    def _call(self, function: str, argument: Any) -> Any:
        match function:
            case "Fn::If":
                name, yes, no = argument
                return self._value(yes if self.condition(name) else no)
            case "Fn::Sub":
                text, names = argument if isinstance(argument, list) else (argument, {})
                return _PLACE.sub(lambda place: self._place(place.group(1), names), text).replace("${!", "${")
            case "Fn::Join":
                separator, parts = argument
                return separator.join(str(part) for part in self._value(parts))
            case "Fn::GetAtt":
                name, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
                return self._attribute(name, attribute)
            case "Fn::FindInMap":
                table, row, column = (self._value(part) for part in argument)
                return self.template["Mappings"][table][str(row)][column]
            case "Fn::Select":
                index, of = argument
                return self._value(of)[int(index)]
            case "Fn::Split":
                separator, text = argument
                return str(self._value(text)).split(separator)
            case _:
                raise Unresolved(f"{function} is not known here")

    def _place(self, place: str, names: dict) -> str:
        if place in names:
            return str(self._value(names[place]))
        if "." in place and not place.startswith("AWS::"):
            return self._attribute(*place.split(".", 1))
        return str(self._ref(place))


def canonical(value: Any) -> Any:
    """A value in the one form in which two of the same meaning are equal.

    Numbers and truth values become texts, as CloudFormation takes them either way; JSON within a text is read; what AWS
    treats as a set is sorted; what only people read (a statement's Sid) is left out.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("{") and text.endswith("}") and not text.startswith("{{"):
            try:
                return canonical(json.loads(text))
            except json.JSONDecodeError:
                return value
        # A reference to a secret may end in empty parts.
        return re.sub(r":+\}\}$", "}}", value)
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        made = {}
        for name, item in value.items():
            if name == "Sid":
                continue
            item = canonical(item)
            # A statement may name one action or a list of them, and the order says nothing.
            if name in ("Action", "Resource", "NotAction") and not isinstance(item, list):
                item = [item]
            if name in _SETS and isinstance(item, list):
                item = sorted(item, key=lambda entry: json.dumps(entry, sort_keys=True))
            if name == "Principal" and item in ("*", {"AWS": "*"}):
                item = "*"
            made[name] = item
        return made
    return value


_SETS = {"Action", "Resource", "Statement", "AttributeDefinitions", "GlobalSecondaryIndexes", "Dimensions", "Policies",
         "sourceQueueArns", "NonKeyAttributes"}
