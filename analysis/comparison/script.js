"use strict";
(() => {
  // Boxes that show and hide what belongs to an objective or an encoder.
  const boxes = [...document.querySelectorAll("nav input")];
  const shown = (kind) => new Set(boxes.filter((box) => box.checked && kind in box.dataset).map((box) => box.dataset[kind]));
  const sift = () => {
    const objectives = shown("showsObjective"), encoders = shown("showsEncoder");
    for (const part of document.querySelectorAll("main [data-objective], main [data-encoder]")) {
      const { objective, encoder } = part.dataset;
      const away = (objective !== undefined && !objectives.has(objective)) || (encoder !== undefined && !encoders.has(encoder));
      part.toggleAttribute("hidden", away);
    }
    for (const grid of document.querySelectorAll(".maps, .cards")) {
      grid.style.setProperty("--columns", Math.max(1, encoders.size));
    }
  };
  boxes.forEach((box) => box.addEventListener("change", sift));

  // Maps: the dot nearest to the pointer is marked in all of them, and its sentence is read below.
  const data = document.getElementById("sentences");
  if (!data) return;
  const { sentences, groups, labels } = JSON.parse(data.textContent);
  const readout = document.getElementById("readout");
  const maps = [...document.querySelectorAll("svg.map")].map((svg) => ({ svg, dots: [...svg.querySelectorAll("circle, rect")] }));
  const centre = (dot) => dot.tagName === "circle"
    ? [+dot.getAttribute("cx"), +dot.getAttribute("cy")]
    : [+dot.getAttribute("x") + 1.7, +dot.getAttribute("y") + 1.7];
  const REACH = 8;  // in the map's own units, of which it is 200 wide
  let marked = -1;

  const mark = (number) => {
    if (number === marked) return;
    for (const { dots } of maps) {
      dots[marked]?.classList.remove("on");
      dots[marked]?.removeAttribute("transform");
      const dot = dots[number];
      if (!dot) continue;
      const [x, y] = centre(dot);
      dot.classList.add("on");
      dot.setAttribute("transform", `translate(${x} ${y}) scale(2.2) translate(${-x} ${-y})`);
    }
    marked = number;
    if (number < 0) return;
    readout.textContent = sentences[number];
    const label = document.createElement("small");
    label.textContent = labels[groups[number]];
    readout.append(label);
  };

  for (const { svg, dots } of maps) {
    const places = dots.map(centre);
    const find = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * 200, y = ((event.clientY - box.top) / box.height) * 200;
      let best = -1, least = REACH ** 2;
      places.forEach(([a, b], number) => {
        const distance = (a - x) ** 2 + (b - y) ** 2;
        if (distance < least) [best, least] = [number, distance];
      });
      if (best >= 0) mark(best);
    };
    svg.addEventListener("pointermove", find);
    svg.addEventListener("pointerdown", find);
  }
})();
