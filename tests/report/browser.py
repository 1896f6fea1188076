"""A headless Chromium, driven by the WebDriver protocol through its own driver."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

DRIVER: Final = shutil.which("chromedriver")
CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE: Final = 120.0
"""Seconds that a page may take for one step; the machine may be busy with other tests."""
_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
_FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-lcd-text", "--window-size=1440,900",
)  # fmt: skip


class Browser:
    """One window; used as a context manager."""

    def __init__(self) -> None:
        assert DRIVER is not None
        assert CHROMIUM is not None
        self.open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        self.folder = tempfile.mkdtemp(prefix="pirkit-browser-")
        path = Path(self.folder, "driver.log")
        with path.open("wb") as log:
            self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=log, stderr=log)
        text = path.read_text
        found = self._until(lambda: "started successfully on port" in text() and text())
        port = found.rpartition("on port ")[2].split(".")[0]
        self.root = f"http://127.0.0.1:{port}/session"
        options = {"args": [*_FLAGS, f"--user-data-dir={self.folder}/data"], "binary": CHROMIUM}
        wanted = {
            "alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        }
        try:
            self.root += "/" + self.ask("POST", "", {"capabilities": wanted})["sessionId"]
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser, then the driver."""
        if self.root.count("/") > 3:
            self.ask("DELETE", "")
        self.driver.terminate()
        self.driver.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One command. Raises AssertionError with the driver's message if it fails."""
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.root + path, data, method=method)
        try:
            with self.open_url(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()[:2000]) from error

    def go(self, path: Path) -> None:
        """Open a file."""
        self.ask("POST", "/url", {"url": path.as_uri()})

    def run(self, script: str, *args: Any) -> Any:
        """The result of JavaScript; the arguments are ``arguments``."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def all(self, selector: str) -> list[Any]:
        """The elements that a selector matches."""
        return self.ask("POST", "/elements", {"using": "css selector", "value": selector})

    def wait(self, condition: str, *args: Any) -> Any:
        """Wait until an expression is true."""
        return self._until(lambda: self.run(f"return {condition}", *args), condition)

    def click(self, selector: str) -> None:
        """Click on the first element that matches, as soon as there is one."""
        self.wait("document.querySelector(arguments[0])", selector)
        self.ask("POST", f"/element/{self.all(selector)[0][_ELEMENT]}/click")

    def type(self, selector: str, text: str) -> None:
        """Write into a field in place of what it holds."""
        (field, *_) = self.all(selector)
        self.run("arguments[0].value = ''", field)
        self.ask("POST", f"/element/{field[_ELEMENT]}/value", {"text": text})

    def choose(self, selector: str, value: Any) -> None:
        """Choose an option by its value."""
        self.run(
            "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
            "s.dispatchEvent(new Event('change'))",
            selector,
            str(value),
        )

    def pointer(self, x: float, y: float, *, clicks: int = 1, key: str = "") -> None:
        """Click at a place of the window, with a key held down if one is named."""
        moves: list[Any] = [{"type": "pointerMove", "x": round(x), "y": round(y)}]
        moves += [{"type": t, "button": 0} for t in ("pointerDown", "pointerUp")] * clicks
        mouse = {"type": "pointer", "id": "mouse", "actions": moves}
        keys = {"type": "key", "id": "keys"}
        if key:
            down, up = ({"type": t, "value": key} for t in ("keyDown", "keyUp"))
            mouse["actions"] = [{"type": "pause"}, *moves]
            keys["actions"] = [down, *[{"type": "pause"}] * len(moves), up]
        self.ask("POST", "/actions", {"actions": [mouse, keys] if key else [mouse]})
        self.ask("DELETE", "/actions")

    def text(self, selector: str) -> str:
        """The text of the first element that matches."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def errors(self) -> list[str]:
        """What the page wrote to the console as errors, those of scripts included."""
        entries = self.ask("POST", "/se/log", {"type": "browser"})
        return [e["message"] for e in entries if e["level"] == "SEVERE"]

    def picture(self, path: Path) -> None:
        """Write what is in sight as a PNG file."""
        path.write_bytes(base64.b64decode(self.ask("GET", "/screenshot")))

    def _until(self, ask: Callable[[], Any], what: str = "the driver") -> Any:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := ask():
                return found
            time.sleep(0.05)
        raise AssertionError(f"{what} does not come true")
