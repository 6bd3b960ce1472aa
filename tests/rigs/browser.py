"""Controls a real Chromium over the WebDriver protocol, which is plain HTTP and so needs no library."""

import base64
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_SECONDS = 100


class Browser:
    """One window of one browser."""

    def __init__(self, http: httpx.Client, session: str) -> None:
        self._http = http
        self._session = f"/session/{session}"

    def call(self, method: str, path: str, **body: Any) -> Any:
        answer = self._http.request(method, self._session + path, json=body if method == "POST" else None).json()
        if isinstance(answer["value"], dict) and "error" in answer["value"]:
            raise AssertionError(answer["value"]["message"].partition("\n")[0])
        return answer["value"]

    def open(self, url: str) -> None:
        self.call("POST", "/url", url=url)

    def store(self, url: str, script: str) -> None:
        """Run a script that writes what a page stores, in that page, whose own scripts do not run. Leave it then."""
        self.devtools("Emulation.setScriptExecutionDisabled", value=True)
        self.open(url)
        self.run(script)
        self.open("about:blank")
        self.devtools("Emulation.setScriptExecutionDisabled", value=False)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a function body in the page and return its result; if the result is a promise, wait for it."""
        return self.call("POST", "/execute/sync", script=script, args=list(arguments))

    def wait(self, script: str) -> Any:
        """Wait until a JavaScript expression is true, and return its value."""
        give_up = time.monotonic() + _SECONDS
        while time.monotonic() < give_up:
            if found := self.run(f"return {script}"):
                return found
            time.sleep(0.05)
        raise AssertionError(f"never true: {script}\n{self.text('body')}")

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def click(self, selector: str) -> None:
        self._to(selector, "click")

    def type(self, selector: str, text: str) -> None:
        self._to(selector, "value", text=text)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def log(self) -> list[str]:
        """Return the console's errors and warnings since the last call, failed requests included."""
        entries = self.call("POST", "/se/log", type="browser")
        return [entry["message"] for entry in entries if entry["level"] in {"SEVERE", "WARNING"}]

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self.call("POST", "/goog/cdp/execute", cmd=command, params=parameters)

    def prefer(self, scheme: str) -> None:
        """Set the preferred colour scheme, ``light`` or ``dark``."""
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def size(self, width: int, height: int) -> None:
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def _to(self, selector: str, what: str, **body: Any) -> None:
        """Do something to an element; once more where the page drew another in its place since it was found."""
        while True:
            try:
                return self.call("POST", f"/element/{self._find(selector)}/{what}", **body)
            except AssertionError as error:
                if not str(error).startswith("stale element reference"):
                    raise

    def _find(self, selector: str) -> str:
        return str(self.call("POST", "/element", using="css selector", value=selector)[_ELEMENT])


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Yield a browser with its own profile folder, and end it afterwards."""
    arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
    ]
    options = {"binary": CHROMIUM, "args": [*arguments, "--no-first-run", "--disable-background-networking"]}
    timeouts = {"script": 1000 * _SECONDS, "pageLoad": 1000 * _SECONDS}
    capabilities = {
        "browserName": "chrome",
        "timeouts": timeouts,
        "goog:chromeOptions": options,
        "goog:loggingPrefs": {"browser": "ALL"},
    }
    with subprocess.Popen(
        [str(DRIVER), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as driver:
        try:
            assert driver.stdout is not None
            port = next(
                line.rpartition(" ")[2].rstrip(".\n") for line in driver.stdout if "port" in line and "success" in line
            )
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=2 * _SECONDS) as http:
                made = http.post("/session", json={"capabilities": {"alwaysMatch": capabilities}}).json()["value"]
                browser = Browser(http, made["sessionId"])
                try:
                    yield browser
                finally:
                    http.delete(f"/session/{made['sessionId']}")
        finally:
            driver.terminate()
