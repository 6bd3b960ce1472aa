"""The text that declares functions to the model."""

from collections.abc import Mapping, Sequence
from typing import Any

from service.core.families import Dialect
from service.core.typescript import comment, parameters_2023, parameters_2024

# The text before the tools of gpt-5 and later: all 46 recorded requests agree with its 93 tokens.
_TOOLS_2025 = """\
# Tools

Tools are grouped by namespace where each namespace has one or more tools defined. By default, the input for each tool \
call is a JSON object. If the tool schema has the word 'FREEFORM' input type, you should strictly follow the function \
description and instructions for the input format. It should not be JSON unless explicitly instructed by the function \
description or system/developer instructions.

## Namespace: functions

### Target channel: commentary

### Tool definitions"""


def render_functions(functions: Sequence[Mapping[str, Any]], dialect: Dialect) -> str:
    """Return the text that declares ``functions``, each an object with name, description and parameters.

    A function with ``freeform`` takes text instead of parameters.
    """
    lines = [line for function in functions for line in _declaration(function, dialect)]
    if dialect == "2025":
        return "\n".join([_TOOLS_2025, *lines])
    return "\n".join(["namespace functions {", "", *lines, "} // namespace functions"])


def _declaration(function: Mapping[str, Any], dialect: Dialect) -> list[str]:
    description, parameters = function.get("description"), function.get("parameters")
    description = description.lstrip() if isinstance(description, str) else ""
    parameters = parameters if isinstance(parameters, Mapping) else {}
    if dialect == "2023":
        notes, body = [f"// {description}"] if description else [], parameters_2023(parameters)
    else:
        notes, body = comment(description), parameters_2024(parameters)
    argument = "FREEFORM" if function.get("freeform") else f"_:{body}" if body else ""
    return [*notes, f"type {function.get('name')} = ({argument}) => any;", ""]
