"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const el = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") node.className = value;
      else if (value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children);
    return node;
  };
  const svg = (tag, attributes, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  // Theme: the system's choice until the reader takes another one.
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Hover values of the charts.
  for (const chart of document.querySelectorAll("svg.chart")) {
    const facts = JSON.parse(chart.dataset.hover);
    const layer = chart.querySelector(".hover");
    const box = chart.viewBox.baseVal;
    chart.addEventListener("pointerleave", () => layer.replaceChildren());
    chart.addEventListener("pointermove", (event) => {
      const at = (event.offsetX / chart.clientWidth) * box.width;
      layer.replaceChildren();
      let row = 0;
      for (const line of facts.lines) {
        let best = line.points[0];
        for (const point of line.points) if (Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
        const [x, y, step, value] = best;
        layer.append(svg("line", { x1: x, x2: x, y1: 10, y2: box.height - 24 }));
        layer.append(svg("circle", { cx: x, cy: y, r: 3.5, fill: line.color }));
        const text = `${facts.x} ${step}: ${value}${facts.unit ? " " + facts.unit : ""}`;
        const label = svg("text", { x: 0, y: 0 }, text);
        layer.append(label);
        const width = label.getComputedTextLength() + 12;
        const left = Math.min(Math.max(x - width / 2, 2), box.width - width - 2);
        const top = (y > 44 ? y - 30 : y + 10) + row++ * 20;
        layer.insertBefore(svg("rect", { x: left, y: top, width, height: 18 }), label);
        label.setAttribute("x", left + 6);
        label.setAttribute("y", top + 13);
      }
    });
  }

  // Episodes.
  const source = document.getElementById("viewer-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const [W, H] = data.size;
  const byId = (id) => document.getElementById(id);
  const list = byId("episode-list"), shot = byId("shot"), marks = byId("marks"), after = byId("after");
  const OUTCOMES = { solved: "", failed: "bad", infrastructure: "neutral" };
  let shown = [], episode = 0, step = 0, timer = 0;
  byId("screen").style.setProperty("--w", W);
  byId("screen").style.setProperty("--h", H);
  marks.setAttribute("viewBox", `0 0 ${W} ${H}`);

  const options = (select, every, names) => {
    select.append(el("option", { value: "" }, every));
    for (const name of names) select.append(el("option", { value: name }, name));
    select.addEventListener("change", () => { episode = 0; step = 0; draw_list(); });
  };
  options(byId("by-stage"), "all stages", [...new Set(data.episodes.map((e) => e.stage))]);
  options(byId("by-outcome"), "all outcomes", [...new Set(data.episodes.map((e) => e.outcome))]);

  const badge = (outcome) => el("span", { class: `badge ${OUTCOMES[outcome]}` }, outcome);

  function draw_list() {
    const stage = byId("by-stage").value, outcome = byId("by-outcome").value;
    shown = data.episodes.filter((e) => (!stage || e.stage === stage) && (!outcome || e.outcome === outcome));
    list.replaceChildren(...shown.map((item, index) => {
      const dot = el("i", { class: "dot" });
      dot.style.setProperty("--c", item.color);
      const who = el("span", { class: "who" }, dot, item.stage, badge(item.outcome));
      const button = el("button", { type: "button", title: item.instruction }, who, el("span", { class: "what" }, item.skill));
      button.addEventListener("click", () => { stop(); episode = index; step = 0; draw(); });
      return el("li", {}, button);
    }));
    draw();
  }

  function ring(x, y, radius, more = "") {
    marks.append(svg("circle", { cx: x, cy: y, r: radius, class: "halo", "stroke-width": 3.2 }));
    marks.append(svg("circle", { cx: x, cy: y, r: radius, class: `ink ${more}`, "stroke-width": 1.6 }));
  }
  function arrow([x0, y0], [x1, y1]) {
    const angle = Math.atan2(y1 - y0, x1 - x0);
    const wing = (turn) => `${x1 - 7 * Math.cos(angle + turn)},${y1 - 7 * Math.sin(angle + turn)}`;
    const path = `M${x0},${y0} L${x1},${y1} M${wing(0.5)} L${x1},${y1} L${wing(-0.5)}`;
    marks.append(svg("path", { d: path, class: "halo", "stroke-width": 3.6 }));
    marks.append(svg("path", { d: path, class: "ink", "stroke-width": 1.8 }));
  }
  function draw_mark(mark) {
    marks.replaceChildren();
    if (!mark.points.length) return;
    const [x, y] = mark.points[0];
    if (mark.points.length === 2) arrow(mark.points[0], mark.points[1]);
    if (mark.kind === "move") ring(x, y, 4, "dotted");
    else ring(x, y, 7, mark.kind === "right" || mark.kind === "middle" ? "dotted" : "");
    if (mark.kind === "double") ring(x, y, 11);
    if (mark.kind !== "move") marks.append(svg("circle", { cx: x, cy: y, r: 1.8, class: "fill" }));
  }

  function part(parent, title, text, tag = "p", kind = "") {
    if (!text) return;
    parent.append(el("h4", {}, title), el(tag, { class: kind }, text));
  }
  function draw_said(item, at) {
    const said = byId("said");
    said.replaceChildren();
    if (at) {
      part(said, "thinks", at.think, "p", "think");
      part(said, "action", at.action);
      part(said, "tool call", at.call, "pre");
      if (!at.call) part(said, "response", at.raw, "pre");
      part(said, "error", at.error, "p", "errtext");
      part(said, "terminal", at.output, "pre", "term");
    }
    const verdict = el("div", { class: "verdict" });
    const facts = [item.ending.replaceAll("_", " "), item.reward === null ? "" : `reward ${item.reward.toFixed(2)}`, item.split];
    verdict.append(el("h4", {}, "verdict"), badge(item.outcome), ` ${facts.filter(Boolean).join(" · ")}`);
    const checks = el("ul");
    for (const check of item.checks) {
      const sign = el("span", { class: check.passed ? "up" : "down" }, check.passed ? "✓ " : "✗ ");
      checks.append(el("li", {}, sign, check.check, el("span", { class: "soft" }, check.reason ? ` ${check.reason}` : "")));
    }
    verdict.append(checks);
    if (item.verdict_error) verdict.append(el("p", { class: "errtext" }, item.verdict_error));
    said.append(verdict);
  }

  function draw() {
    const item = shown[episode];
    [...list.querySelectorAll("button")].forEach((b, i) => b.setAttribute("aria-current", String(i === episode)));
    if (!item) {
      byId("instruction").textContent = "no episode of this kind";
      byId("said").replaceChildren();
      byId("strip").replaceChildren();
      marks.replaceChildren();
      shot.hidden = true;
      byId("caption").textContent = byId("count").textContent = "";
      return;
    }
    step = Math.min(step, Math.max(0, item.steps.length - 1));
    const at = item.steps[step];
    byId("instruction").textContent = item.instruction;
    const picture = at ? data.screens[after.checked && at.screen_after ? at.screen_after : at.screen] : undefined;
    shot.hidden = !picture;
    byId("noshot").style.display = picture ? "none" : "";
    if (picture) shot.src = picture;
    if (at && !after.checked) draw_mark(at.mark); else marks.replaceChildren();
    const caption = byId("caption");
    caption.textContent = at && !after.checked ? at.mark.caption : "";
    caption.className = `caption ${at ? at.mark.tone : ""}`;
    const tokens = at && at.tokens !== null ? ` · ${at.tokens} tokens` : "";
    const channel = at && at.channel !== "none" ? ` · ${at.channel}` : "";
    byId("count").textContent = item.steps.length ? `step ${step + 1} of ${item.steps.length}${channel}${tokens}` : "no steps";
    draw_said(item, at);
    byId("strip").replaceChildren(...item.steps.map((other, index) => {
      const image = data.screens[other.screen];
      const name = other.error ? "error" : other.mark.caption || "–";
      const button = el("button", { type: "button", class: other.error ? "err" : "", "aria-current": String(index === step), title: name });
      if (image) button.append(el("img", { src: image, alt: "" }));
      button.append(el("span", {}, name));
      button.addEventListener("click", () => { stop(); step = index; draw(); });
      return button;
    }));
  }

  function go(by) {
    const item = shown[episode];
    if (!item) return false;
    const to = Math.min(Math.max(step + by, 0), item.steps.length - 1);
    const moved = to !== step;
    step = to;
    draw();
    return moved;
  }
  function stop() { clearInterval(timer); timer = 0; byId("play").textContent = "▶ play"; }
  function play() {
    if (timer) return stop();
    if (shown[episode] && step >= shown[episode].steps.length - 1) { step = 0; draw(); }
    byId("play").textContent = "❚❚ stop";
    timer = setInterval(() => { if (!go(1)) stop(); }, 1100);
  }
  byId("back").addEventListener("click", () => { stop(); go(-1); });
  byId("forth").addEventListener("click", () => { stop(); go(1); });
  byId("play").addEventListener("click", play);
  after.addEventListener("change", draw);
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("select, input, textarea, button, summary") && event.key === " ") return;
    if (event.target.closest("select, input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const box = byId("viewer").getBoundingClientRect();
    if (box.bottom < 80 || box.top > innerHeight - 80) return;
    if (event.key === "ArrowLeft") { stop(); go(-1); }
    else if (event.key === "ArrowRight") { stop(); go(1); }
    else if (event.key === "ArrowUp" && episode > 0) { stop(); episode--; step = 0; draw(); }
    else if (event.key === "ArrowDown" && episode < shown.length - 1) { stop(); episode++; step = 0; draw(); }
    else if (event.key === " ") play();
    else return;
    event.preventDefault();
  });
  draw_list();
})();
