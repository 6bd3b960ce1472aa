"""Run all checks and tests of the project, as developers and CI do: ``python -m tests``, or ``--quick`` for a minute's part.

First the checks that need no server, two at once, then the tests in four processes, as they wait for half of their time.
A failure does not stop the rest: the failed checks are named at the end, and pytest's closing line comes last. To run only
some tests, use pytest.

Bounds of time are kept as tight as they are promised, and a busy machine breaks one now and then. So when at most
``TRIED_AGAIN`` tests failed, each is tried again, alone and with the same seed. Those that pass then are named.

``--quick`` checks format, lint, arrows and types, and runs the core's tests, the validators and one server, with few
examples of each property. The last line names what did not run: what this machine lacks, and what has a command of its own.

``--coverage`` measures which branches the tests reach, and fails under ``fail_under``. Tracing doubles the time of Python
code, so it leaves out the tests that last long, and draws few examples. A test whose bound of time fails so is tried again
without tracing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
CHECKS = {
    # The longest go first. Where nothing is compiled, collection compiles once what each process of the tests would.
    "collection": [PYTHON, "-m", "pytest", "--collect-only", "-qq"],
    "types": [PYTHON, "-m", "mypy"],
    "dependencies agree": [PYTHON, "-m", "pip", "check"],
    "lint": [PYTHON, "-m", "ruff", "check", "."],
    "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "arrows": [str(Path(PYTHON).with_name("lint-imports")), "--no-cache"],
}
QUICK_CHECKS = ("lint", "format", "arrows")
APART = {
    "nightly": (),
    "clients": ("node", "npm", "java", "javac", "go"),
    "deploy": ("promtool", "prometheus"),
}
"""Marks of tests that only commands of their own run, with the programs that these need."""
NOT_APART = " and ".join(f"not {mark}" for mark in APART)
QUICK = [PYTHON, "-m", "pytest", "-q", "--hypothesis-profile=quick", "-m", f"{NOT_APART} and not slow"]
QUICK_TESTS = {
    "core": [*QUICK, "tests/core"],
    "validators and one server": [*QUICK, "tests/validators", "tests/test_one_server.py"],
}
OPENAPI = [PYTHON, "-m", "sash", "openapi"]
PYTEST = ["-m", "pytest", "-n", "4", "--dist", "worksteal", "--durations=40"]
TESTS = [PYTHON, *PYTEST]
TRACED = ["--hypothesis-profile=quick", "-m", f"{NOT_APART} and not long"]
COVERED_TESTS = [PYTHON, "-m", "coverage", "run", *PYTEST, *TRACED]
TRIED_AGAIN = 8  # of 11,900 tests; more failures are no busy machine
AGAIN = [PYTHON, "-m", "pytest", "--last-failed", "-p", "no:xdist", "--randomly-seed=last"]
_LEFT_OUT = ("SASH_", "PYTHONDONTWRITEBYTECODE")  # without bytecode, each process that starts compiles all modules
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)},
    "COVERAGE_FILE": str(ROOT / ".coverage"),  # absolute, for a process that changes its directory
    "PYTHONUNBUFFERED": "1",
}


def run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )


def report(name: str, started: float, output: bytes, *, passed: bool) -> bool:
    """Print one line, and the check's output if it failed; return ``passed``."""
    print(f"{'ok    ' if passed else 'FAILED'} {name} ({time.monotonic() - started:.1f} s)", flush=True)
    if not passed:
        print(output.decode(errors="replace"), flush=True)
    return passed


def check(name: str, command: list[str]) -> bool:
    return checked(name, command)[0]


def checked(name: str, command: list[str]) -> tuple[bool, str]:
    """Run a command and report it; return whether it passed, and its output."""
    started = time.monotonic()
    result = run(command)
    output = result.stdout + result.stderr
    return report(name, started, output, passed=result.returncode == 0), output.decode(errors="replace")


def check_openapi() -> bool:
    """Return whether openapi.json equals the output of ``python -m sash openapi``, byte for byte."""
    started = time.monotonic()
    result = run(OPENAPI)
    stored = ROOT / "openapi.json"
    passed = result.returncode == 0 and stored.exists() and stored.read_bytes() == result.stdout
    hint = b"openapi.json is not what the service is: python -m sash openapi > openapi.json\n"
    return report("openapi.json", started, hint + result.stderr, passed=passed)


def run_tests(command: list[str]) -> tuple[bool, str, Counter[str]]:
    """Run pytest, print all but its closing line; return whether all passed in the end, that line, and what was skipped."""
    failed: list[str] = []
    closing, skipped = "", Counter[str]()
    piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, text=True, errors="replace", **piped) as process:
        for line in process.stdout or ():
            if closing:
                print(closing, end="", flush=True)
            closing = line
            skipped += skips(line)
            if line.startswith(("FAILED ", "ERROR ")):
                failed.append(line.split(" - ")[0].strip())
    if process.returncode == 1 and 0 < len(failed) <= TRIED_AGAIN and try_again(failed):
        return True, as_passed(closing), skipped
    return process.returncode == 0, closing, skipped


def skips(output: str) -> Counter[str]:
    """Return how many tests each missing thing left out, from pytest's lines: ``SKIPPED [3] a.py:7: needs curl: …``."""
    found = Counter[str]()
    for number, reason in re.findall(r"^SKIPPED \[(\d+)\] \S+: (.*)$", output, re.MULTILINE):
        found[reason.removeprefix("needs ").partition(":")[0]] += int(number)
    return found


def not_run(skipped: Counter[str], *more: str) -> str:
    """Return one line that names what the tests did not run: for want of what, and what has a command of its own."""
    wanting = [f"{number} for want of: {name}" for name, number in sorted(skipped.items())]
    for mark, programs in APART.items():
        missing = [name for name in programs if shutil.which(name) is None]
        wanting.append(f"-m {mark}" + (f" (not here: {', '.join(missing)})" if missing else ""))
    return f"not run: {'; '.join([*wanting, *more])}"


def as_passed(closing: str) -> str:
    """Return pytest's closing line with the tests that failed among those that passed."""
    failed, passed = (re.search(rf"(\d+) {word}(, )?", closing) for word in ("failed", "passed"))
    if failed is None or passed is None:
        return closing
    both = int(failed[1]) + int(passed[1])
    return closing.replace(failed[0], "").replace(f"{passed[1]} passed", f"{both} passed")


def try_again(failed: list[str]) -> bool:
    """Run the tests that failed once more, alone, and print their names; return whether all of them passed now."""
    started = time.monotonic()
    result = run(AGAIN)
    named = "; ".join(failed)
    return report(f"a second time, alone: {named}", started, result.stdout, passed=result.returncode == 0)


def check_coverage() -> bool:
    """Print each file with incomplete coverage; return whether the total reaches ``fail_under``."""
    combined = run([PYTHON, "-m", "coverage", "combine", "-q"])
    result = run([PYTHON, "-m", "coverage", "report"])
    print((combined.stderr + result.stdout + result.stderr).decode(errors="replace"), flush=True)
    return result.returncode == 0


def run_quickly() -> int:
    """Run the quick check, two commands at once, and return the exit status."""
    started = time.monotonic()
    commands = {"core": QUICK_TESTS["core"], "types": CHECKS["types"], **QUICK_TESTS}  # the longest go first
    commands |= {name: CHECKS[name] for name in QUICK_CHECKS}
    with ThreadPoolExecutor(2) as both:
        running = {name: both.submit(checked, name, command) for name, command in commands.items()}
    results = {name: each.result() for name, each in running.items()}
    status = ended({name: passed for name, (passed, _) in results.items()})
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    skipped = sum((skips(output) for _, output in results.values()), Counter[str]())
    print(not_run(skipped, "all else of python -m tests"), flush=True)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description="Run all checks and tests.")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--quick", action="store_true", help="only what takes a minute")
    parts.add_argument("--coverage", action="store_true", help="only tests, and which branches they reach")
    chosen = parser.parse_args()
    return run_quickly() if chosen.quick else run_covered() if chosen.coverage else run_all()


def run_all() -> int:
    """Run everything and return the exit status."""
    with ThreadPoolExecutor(2) as both:
        running = {name: both.submit(check, name, command) for name, command in CHECKS.items()}
        running["openapi.json"] = both.submit(check_openapi)
    passed = {name: each.result() for name, each in running.items()}
    passed["tests"], closing, skipped = run_tests(TESTS)
    status = ended(passed)
    print(closing, end="", flush=True)
    print(not_run(skipped), flush=True)
    return status


def run_covered() -> int:
    """Run the tests with coverage and return the exit status."""
    run([PYTHON, "-m", "coverage", "erase"])
    passed, closing, _ = run_tests(COVERED_TESTS)
    status = ended({"tests": passed, "coverage": check_coverage()})
    print(closing, end="", flush=True)
    return status


def ended(passed: dict[str, bool]) -> int:
    """Name what failed; return the exit status."""
    failed = [name for name, good in passed.items() if not good]
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
