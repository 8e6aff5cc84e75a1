"""The page in a browser without a window: no error, and what the pointer does; skipped where there is none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.comparison import page
from tests.analysis.comparison import made_up

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell", "chrome-headless-shell")

# Put into the page: collects errors, then does what a reader does, and writes down what came of it.
WATCH = """<script>
const faults = [];
window.addEventListener("error", (event) => faults.push(event.message));
console.error = (...told) => faults.push(told.join(" "));
</script>"""
ACT = """<script>
window.addEventListener("load", () => {
  const told = {};
  const maps = [...document.querySelectorAll("svg.map")];
  const dot = maps[0].querySelectorAll("circle, rect")[7];
  const box = dot.getBoundingClientRect();
  const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true };
  dot.dispatchEvent(new PointerEvent("pointermove", at));
  const on = (map) => [...map.querySelectorAll("circle, rect")].findIndex((one) => one.classList.contains("on"));
  const marked = maps.map(on);
  told.same = new Set(marked).size === 1 && marked[0] >= 0;
  const data = JSON.parse(document.getElementById("sentences").textContent);
  const readout = document.getElementById("readout");
  told.read = readout.firstChild.textContent === data.sentences[marked[0]];
  told.label = readout.querySelector("small").textContent === data.labels[data.groups[marked[0]]];
  const box0 = document.querySelector('[data-shows-objective="declutr"]');
  const figures = [...document.querySelectorAll("main figure")];
  const shown = () => figures.filter((one) => one.offsetParent !== null).length;
  const before = shown();
  box0.click();
  told.fewer = shown() < before && !document.querySelector('main [data-objective="declutr"]:not([hidden])');
  box0.click();
  told.back = shown() === before;
  told.wide = document.documentElement.scrollWidth <= window.innerWidth;
  told.faults = faults;
  const result = document.createElement("pre");
  result.id = "told";
  result.textContent = JSON.stringify(told);
  document.body.append(result);
});
</script>"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"there is no browser ({', '.join(BROWSERS)})")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", ["1400,900", "390,800"], ids=["projected", "phone"])
def test_a_reader(browser: str, size: str, tmp_path: Path) -> None:
    text = page.render(made_up.comparison(tmp_path / "runs"))
    file = tmp_path / "page.html"
    file.write_text(
        text.replace("<head>", f"<head>{WATCH}", 1).replace("</body>", f"{ACT}</body>"), encoding="utf-8"
    )
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={size}",
        "--virtual-time-budget=5000",
    ]
    shown = subprocess.run(
        [browser, *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    told = shown.stdout.rpartition('<pre id="told">')[2].partition("</pre>")[0]
    assert told == ('{"same":true,"read":true,"label":true,"fewer":true,"back":true,"wide":true,"faults":[]}')
