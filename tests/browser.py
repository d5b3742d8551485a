"""A real browser for tests: headless Chromium, driven through chromedriver by the WebDriver protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
]
KEYS = {"left": "\ue012", "right": "\ue014", "home": "\ue011", "end": "\ue010", "tab": "\ue004"}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # how the protocol names an element


def why_there_is_none() -> str:
    """Why no browser can be started here; empty if one can."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not installed: apt-get install chromium chromium-driver" if lacking else ""


class Browser:
    """A window. Scripts are bodies of functions: `return` gives their result."""

    def __init__(self, address: str) -> None:
        self._address = address

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        content = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._address + path, content, {"Content-Type": "application/json"})
        request.method = method
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]

    def open(self, url: str) -> None:
        """Load a page and wait until it is drawn."""
        self._ask("POST", "/url", {"url": url})
        self.wait_for("return document.body && document.body.dataset.drawn === 'true'")

    def run(self, script: str, *arguments: object) -> Any:
        return self._ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def wait_for(self, script: str, seconds: float = 30.0) -> None:
        """Wait until a script returns something true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"this did not become true: {script}"
            time.sleep(0.05)

    def press(self, selector: str, *keys: str) -> None:
        """Press keys while an element has the focus."""
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
        self._ask("POST", f"/element/{found}/value", {"text": "".join(KEYS.get(key, key) for key in keys)})

    def command(self, name: str, **parameters: object) -> Any:
        """A command of the DevTools protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def look(self, width: int, dark: bool = False, height: int = 900) -> None:
        """Set the width of the page, and whether the user prefers dark colours."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self) -> bytes:
        """The whole page as a PNG."""
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last call: "browser" is the console, "performance" has the requests."""
        entries: list[dict[str, Any]] = self._ask("POST", "/se/log", {"type": kind})
        return entries

    def requests(self) -> list[str]:
        """The addresses of all requests since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent]


@contextmanager
def started(folder: Path) -> Iterator[Browser]:
    """A browser with a new profile in this folder."""
    driver = subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert driver.stdout is not None
        line = next(line for line in driver.stdout if "started successfully on port" in line)
        port = line.strip().rstrip(".").rpartition(" ")[2]
        server = f"http://127.0.0.1:{port}/session"
        options = {"args": [*FLAGS, f"--user-data-dir={folder / 'profile'}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        body = json.dumps({"capabilities": {"alwaysMatch": wanted}}).encode()
        request = urllib.request.Request(server, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            address = f"{server}/{json.loads(answer.read())['value']['sessionId']}"
        try:
            yield Browser(address)
        finally:
            urllib.request.urlopen(urllib.request.Request(address, method="DELETE"), timeout=60).close()
    finally:
        driver.terminate()
        driver.wait(timeout=20)
        if driver.stdout is not None:
            driver.stdout.close()
