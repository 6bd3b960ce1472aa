"""The house: one name for one thing, and no circle of imports."""

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

TESTS = Path(__file__).resolve().parent
SERVICE = TESTS.parent / "service"
PACKAGES = ("sash", "sash_client", "sash_tools")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_modules_and_no_two_classes_share_a_name(package: str) -> None:
    """A module's name, and a class's, names one thing in a whole package. Packages' own files do not count."""
    named: dict[str, list[str]] = defaultdict(list)
    for path in (SERVICE / package).rglob("*.py"):
        where = str(path.relative_to(SERVICE))
        if not path.name.startswith("__"):
            named[f"module {path.stem}"].append(where)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                named[f"class {node.name}"].append(where)
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


def test_no_property_has_a_number_of_its_own() -> None:
    """Each property asks for a factor of its profile's examples; the model alone counts its steps."""
    counting = {"profiles.py", "test_machine.py", Path(__file__).name}
    assert [
        path for path in TESTS.rglob("*.py") if path.name not in counting and "max_examples=" in path.read_text()
    ] == []


def test_no_rig_is_a_test() -> None:
    """What several folders' tests stand on, and the benchmarks, have no tests among them."""
    assert [path for folder in ("rigs", "bench") for path in (TESTS / folder).rglob("test_*.py")] == []


def test_imports_have_no_circle() -> None:
    """No module needs, directly or through others, itself."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle: {' → '.join(error.args[1])}") from None
