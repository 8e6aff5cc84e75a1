"""The page in a headless browser: it reacts to input without errors; skipped without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.comparison import page
from tests.analysis.comparison import example_comparison

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell", "chrome-headless-shell")

# Scripts inserted into the page: one collects errors, one simulates a reader and records the outcome.
WATCH = """<script>
const faults = [];
window.addEventListener("error", (event) => faults.push(event.message));
console.error = (...words) => faults.push(words.join(" "));
</script>"""
ACT = """<script>
window.addEventListener("load", () => {
  const found = {};
  const maps = [...document.querySelectorAll("svg.map")];
  const dot = maps[0].querySelectorAll("circle, rect")[7];
  const box = dot.getBoundingClientRect();
  const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true };
  dot.dispatchEvent(new PointerEvent("pointermove", at));
  const on = (map) => [...map.querySelectorAll("circle, rect")].findIndex((one) => one.classList.contains("on"));
  const marked = maps.map(on);
  found.same = new Set(marked).size === 1 && marked[0] >= 0;
  const data = JSON.parse(document.getElementById("sentences").textContent);
  const readout = document.getElementById("readout");
  found.read = readout.firstChild.textContent === data.sentences[marked[0]];
  found.label = readout.querySelector("small").textContent === data.labels[data.groups[marked[0]]];
  const box0 = document.querySelector('[data-shows-objective="declutr"]');
  const figures = [...document.querySelectorAll("main figure")];
  const shown = () => figures.filter((one) => one.offsetParent !== null).length;
  const before = shown();
  box0.click();
  found.fewer = shown() < before && !document.querySelector('main [data-objective="declutr"]:not([hidden])');
  box0.click();
  found.back = shown() === before;
  const width = () => maps[0].getBoundingClientRect().width, small = width();
  maps[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const large = width();
  found.inside = large <= window.innerWidth && maps[0].getBoundingClientRect().height <= window.innerHeight;
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  found.grows = large > 1.2 * small && width() === small;
  found.wide = document.documentElement.scrollWidth <= window.innerWidth;
  const scores = document.querySelector("table.scores"), frame = scores.parentElement;
  found.frame = frame.clientWidth <= window.innerWidth
    && (scores.offsetWidth <= frame.clientWidth || getComputedStyle(frame).overflowX === "auto");
  found.faults = faults;
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
});
</script>"""


@pytest.fixture(scope="module")
def browser() -> str:
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip(f"there is no browser ({', '.join(BROWSERS)})")
    return executable


@pytest.mark.slow
@pytest.mark.parametrize("size", ["1400,900", "390,800"], ids=["projected", "phone"])
def test_the_page_reacts_to_a_reader_without_errors(browser: str, size: str, tmp_path: Path) -> None:
    text = page.render(example_comparison.comparison(tmp_path / "runs"))
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
    process = subprocess.run(
        [browser, *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    outcome = process.stdout.rpartition('<pre id="found">')[2].partition("</pre>")[0]
    expected = dict.fromkeys(("same", "read", "label", "fewer", "back", "inside", "grows", "wide", "frame"), True)
    assert json.loads(outcome) == expected | {"faults": []}
