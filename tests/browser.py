"""A real browser, where there is one, for pages as a phone shows them."""

import re
import shutil
import subprocess
from typing import NamedTuple

import pytest


class Seen(NamedTuple):
    """What a browser made of a page at the width of a phone."""

    too_wide: int  # pixels that have to be scrolled sideways
    pictures: int
    broken: int  # pictures that were not loaded
    console: str


@pytest.fixture
def phone(tmp_path):
    """Open a page in headless Chromium, 390 pixels wide, everything unfolded; skips where there is none."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium was found: install chromium to open pages in a browser")

    def seen(html: str) -> Seen:
        opened = html.replace("<details>", "<details open>").replace("&", "&amp;").replace('"', "&quot;")
        measure = (
            "const e = f.contentDocument.documentElement, all = [...e.querySelectorAll('img')];"
            "const broken = all.filter(i => !i.complete || !i.naturalWidth);"
            "document.title = [e.scrollWidth - e.clientWidth, all.length, broken.length].join(' ')"
        )
        frame = f'<iframe id="f" style="width:390px;height:900px;border:0" srcdoc="{opened}"></iframe>'
        script = f"<script>const f = document.getElementById('f'); f.onload = () => {{ {measure} }}</script>"
        (tmp_path / "check.html").write_text(f"<!DOCTYPE html><meta charset=utf-8>{frame}{script}", encoding="utf-8")
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        quiet += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}"]
        log = ["--enable-logging=stderr", "--virtual-time-budget=5000", "--window-size=800,1000", "--dump-dom"]
        command = [browser, *quiet, *log, (tmp_path / "check.html").as_uri()]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        title = re.search(r"<title>(\d+) (\d+) (\d+)</title>", ran.stdout)
        assert title, ran.stdout[:300]
        console = "\n".join(line for line in ran.stderr.splitlines() if "CONSOLE" in line)
        return Seen(*map(int, title.groups()), console=console)

    return seen
