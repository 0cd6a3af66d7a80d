"""Firefox for tests of pages: started without a window, and led by WebDriver BiDi, which it speaks itself.

`MINIGPT_FIREFOX` names the program. Without Firefox, or without tornado (extra `site`), a test is skipped with the
reason; `MINIGPT_NEED_BROWSER` is about Chromium alone.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("firefox", "firefox-esr")
QUIET = {  # nothing is asked for but what a page asks for
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "ui.prefersReducedMotion": 1,
}
KEYS = {"Enter": "\ue007", "Space": "\ue00d", "ArrowLeft": "\ue012", "ArrowRight": "\ue014", "Home": "\ue011"}
PATIENCE = 120  # seconds for one answer: the machine may be busy


class Tab:
    """The tab of a running Firefox. requests: every address it asked for. complaints: errors and warnings."""

    def __init__(self, socket: Any, loop: asyncio.AbstractEventLoop):
        self.socket, self.loop, self.numbers = socket, loop, itertools.count(1)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.send("session.new", capabilities={})
        # a new window has the focus, which the first one lacks: without it keys press no button
        self.context = self.send("browsingContext.create", type="window")["context"]
        events = ["log.entryAdded", "network.beforeRequestSent", "network.fetchError"]
        self.send("session.subscribe", events=events)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer. Raises RuntimeError where Firefox refuses it."""
        return self.loop.run_until_complete(asyncio.wait_for(self._sent(method, params), PATIENCE))

    async def _sent(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = next(self.numbers)
        await self.socket.write_message(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            text = await self.socket.read_message()
            if text is None:
                raise RuntimeError(f"Firefox has ended before it answered {method}")
            message = json.loads(text)
            if message.get("type") == "event":
                self._noted(message["method"], message["params"])
            elif message.get("id") == number:
                if message["type"] == "error":
                    raise RuntimeError(f"{method}: {message['message']}")
                return message["result"]

    def _noted(self, event: str, params: dict[str, Any]) -> None:
        if event == "network.beforeRequestSent":
            self.requests.append(params["request"]["url"])
        elif event == "network.fetchError":
            self.complaints.append(f"{params['request']['url']}: {params['errorText']}")
        elif params["level"] in ("error", "warn"):
            self.complaints.append(f"{params['level']}: {params['text']}")

    def go(self, address: str) -> None:
        """Open a page, and wait until it is there."""
        self.send("browsingContext.navigate", context=self.context, url=address, wait="complete")

    def evaluate(self, code: str) -> Any:
        """The value of an expression in the page, which JSON can hold; a promise is awaited."""
        whole = f"(async () => JSON.stringify(await ({code})))()"
        target = {"context": self.context}
        found = self.send("script.evaluate", expression=whole, target=target, awaitPromise=True)
        if found["type"] != "success":
            raise RuntimeError(found["exceptionDetails"]["text"])
        return json.loads(found["result"].get("value", "null"))

    def wait_for(self, code: str) -> None:
        """Wait until an expression of the page is true. Raises RuntimeError where that takes more than 30 seconds."""
        done = f"new Promise((yes) => {{ const end = Date.now() + 30000; const look = () => ({code}) ? yes(true) : "
        done += "Date.now() > end ? yes(false) : setTimeout(look, 50); look(); })"
        if not self.evaluate(done):
            raise RuntimeError(f"it did not come true: {code}")

    def press(self, key: str) -> None:
        """Press a key, by its name or its letter."""
        value = KEYS.get(key, key)
        actions = [{"type": kind, "value": value} for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self.send("input.performActions", context=self.context, actions=[keyboard])

    def size(self, width: int, height: int) -> None:
        """Give the page this size in pixels."""
        viewport = {"width": width, "height": height}
        self.send("browsingContext.setViewport", context=self.context, viewport=viewport)

    def picture(self, path: Path, whole: bool = False) -> None:
        """Keep a picture of what is seen of the page, or of all of it."""
        origin = "document" if whole else "viewport"
        found = self.send("browsingContext.captureScreenshot", context=self.context, origin=origin)
        path.write_bytes(base64.b64decode(found["data"]))


async def connected(websocket: Any, address: str) -> Any:
    """A connection of tornado."""
    return await websocket.websocket_connect(address, max_message_size=2**28)


@contextlib.contextmanager
def firefox(**settings: Any) -> Iterator[Tab]:
    """Yields the tab of a new Firefox; skips the test where there is none. settings: of Firefox, dots as two lines."""
    websocket = pytest.importorskip("tornado.websocket", reason="tornado is not installed (extra site)")
    named = os.environ.get("MINIGPT_FIREFOX")
    program = named or next((path for path in map(shutil.which, PROGRAMS) if path), None)
    if program is None:
        pytest.skip("no Firefox was found: MINIGPT_FIREFOX can name one")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        values = QUIET | {name.replace("__", "."): value for name, value in settings.items()}
        lines = [f'user_pref("{name}", {json.dumps(value)});' for name, value in values.items()]
        Path(folder, "user.js").write_text("\n".join(lines), encoding="utf-8")
        command = [program, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", folder]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, encoding="utf-8")
        loop = asyncio.new_event_loop()
        try:
            said = next((line for line in process.stderr if "BiDi listening" in line), "")
            address = re.search(r"ws://\S+", said)
            if address is None:
                pytest.skip(f"{program} does not start, or does not speak WebDriver BiDi")
            yield Tab(loop.run_until_complete(connected(websocket, f"{address.group()}/session")), loop)
        finally:
            process.terminate()
            process.wait(timeout=60)
            loop.close()
