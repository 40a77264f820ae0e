"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement, screen = byId("screen"), canvas = byId("canvas"), marks = byId("marks");
  const frame = byId("frame"), log = byId("log"), control = byId("control"), hint = byId("hint"), notice = byId("notice");
  const pen = canvas.getContext("2d", { alpha: false });
  const NS = "http://www.w3.org/2000/svg";
  let socket = null, W = 0, H = 0, scale = 1, mine = false, steps = 0, chosen = null, retry = 0, ended = false;

  // -- theme: as the system has it, until somebody chooses
  try { if (localStorage.theme) root.dataset.theme = localStorage.theme; } catch { /* no storage: the system's */ }
  byId("theme").onclick = () => {
    const dark = getComputedStyle(root).colorScheme.trim() === "dark" || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.theme = root.dataset.theme; } catch { /* for this page only */ }
  };

  // -- the conversation
  const send = (message) => { if (socket && socket.readyState === 1) socket.send(JSON.stringify(message)); };
  function connect() {
    socket = new WebSocket(`ws://${location.host}/live`);
    socket.binaryType = "blob";
    socket.onopen = () => { retry = 0; log.replaceChildren(); steps = 0; };
    socket.onmessage = async (event) => {
      if (typeof event.data !== "string") return draw(event.data);
      const told = JSON.parse(event.data);
      ({ about, log: entries, state, notice: say, pointer: () => {} })[told.type]?.(told);
    };
    socket.onclose = () => {
      setControl("free");
      show_state("the desktop is closed", "gone");
      if (!ended && retry++ < 5) setTimeout(connect, 500 * retry);
    };
  }
  function about(told) {
    [W, H] = told.size;
    canvas.width = W; canvas.height = H;
    marks.setAttribute("viewBox", `0 0 ${W} ${H}`);
    screen.classList.toggle("sharp", W < 640);
    byId("backend").textContent = told.backend;
    byId("task").textContent = byId("task").title = told.task;
    document.title = `${told.title || told.task || told.backend} – cowork desktop`;
    fit();
  }
  async function draw(blob) {
    try {
      const picture = await createImageBitmap(blob);
      pen.drawImage(picture, 0, 0);
      picture.close();
      byId("empty").hidden = true;
      byId("empty").style.display = "none";
      root.dataset.pictures = String(Number(root.dataset.pictures || 0) + 1);
    } finally { send({ do: "drawn" }); }
  }
  function state(told) {
    show_state(told.text, told.kind);
    setControl(told.control);
  }
  function show_state(text, kind) {
    byId("state").className = `state ${kind}`;
    byId("state").lastElementChild.textContent = text || "ready";
  }
  let clearing = 0;
  function say(told) {
    notice.textContent = told.text;
    clearTimeout(clearing);
    clearing = setTimeout(() => { notice.textContent = ""; }, 6000);
  }

  // -- size: whole multiples for pixel art, whatever fits for real screens
  function fit() {
    if (!W) return;
    const most = Math.min(frame.clientWidth / W, (frame.clientHeight || H) / H);
    scale = W < 640 ? Math.max(1, Math.floor(most)) : most;
    if (W < 640 && most < 1) scale = most;
    canvas.style.width = `${Math.round(W * scale)}px`;
    canvas.style.height = `${Math.round(H * scale)}px`;
    if (chosen) mark(chosen);
  }
  new ResizeObserver(fit).observe(frame);

  // -- the log
  function part(tag, name, text) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    node.textContent = text;
    return node;
  }
  function entries(told) {
    const low = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    for (const entry of told.entries) log.append(entry.type === "step" ? step(entry) : info(entry));
    byId("count").textContent = steps === 1 ? "1 step" : steps ? `${steps} steps` : "";
    if (low) log.scrollTop = log.scrollHeight;
  }
  function info(entry) {
    const item = part("li", "info", "");
    item.append(part("b", "", entry.title || ""), document.createTextNode(entry.title ? ` ${entry.text || ""}` : entry.text || ""));
    return item;
  }
  function step(entry) {
    steps += 1;
    const item = part("li", entry.who, "");
    const top = part("div", "top", "");
    const name = part("button", "a", entry.action || entry.caption || (entry.error ? "not understood" : "–"));
    name.type = "button";
    name.title = "Show where";
    name.onclick = () => choose(item, entry);
    const model = entry.model_seconds === null ? "" : `${entry.model_seconds.toFixed(1)} s + `;
    const took = part("span", "t", `${model}${entry.seconds.toFixed(2)} s`);
    took.title = model ? "seconds of thinking, then of doing" : "seconds";
    top.append(part("span", "n", entry.who === "person" ? "you" : String(entry.number)), name, took);
    item.append(top);
    if (entry.think) item.append(part("p", "think", entry.think));
    if (entry.caption && entry.action) item.append(part("div", "call", entry.caption));
    if (entry.decision) item.append(part("p", "decision", entry.decision));
    if (entry.error) item.append(part("p", "error", entry.error));
    if (entry.output) item.append(part("div", "out", entry.output));
    choose(item, entry);
    return item;
  }
  function choose(item, entry) {
    log.querySelector("li.on")?.classList.remove("on");
    item.classList.add("on");
    chosen = entry;
    mark(entry);
  }

  // -- the red marker
  const svg = (tag, given) => {
    const node = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(given)) node.setAttribute(key, value);
    return node;
  };
  function mark(entry) {
    marks.replaceChildren();
    const { kind, points } = entry.mark;
    if (!points.length || !byId("markers").checked) return;
    const unit = 1 / scale, group = svg("g", {});
    const both = (tag, given, extra = "") => {
      group.append(svg(tag, { ...given, class: "halo", "stroke-width": 5 * unit }));
      group.append(svg(tag, { ...given, class: `ink ${extra}`, "stroke-width": 2.6 * unit }));
    };
    const [x, y] = points[0];
    if (points.length === 2) {
      const [u, v] = points[1], turn = Math.atan2(v - y, u - x), tip = 12 * unit;
      const wing = (by) => `${u - tip * Math.cos(turn + by)} ${v - tip * Math.sin(turn + by)}`;
      both("path", { d: `M${x} ${y}L${u} ${v}M${wing(0.5)}L${u} ${v}L${wing(-0.5)}` });
    }
    const dotted = kind === "right" || kind === "middle" || kind === "move" ? "dotted" : "";
    both("circle", { cx: x, cy: y, r: 13 * unit }, dotted);
    if (kind === "double") both("circle", { cx: x, cy: y, r: 20 * unit });
    if (kind !== "move") group.append(svg("circle", { cx: x, cy: y, r: 3.6 * unit, class: "dot", "stroke-width": unit }));
    marks.append(group);
    setTimeout(() => group.classList.add("old"), 2500);
  }
  byId("markers").onchange = () => (chosen ? mark(chosen) : 0);

  // -- control
  const LOOKING = "You are looking on. Nothing you do here reaches the desktop.";
  function setControl(who) {
    mine = who === "mine";
    root.classList.toggle("driving", mine);
    control.setAttribute("aria-pressed", String(mine));
    control.textContent = mine ? "Give control back" : "Take control";
    control.disabled = who === "other";
    screen.tabIndex = mine ? 0 : -1;
    screen.setAttribute("role", mine ? "application" : "img");
    if (mine) {
      hint.replaceChildren("Mouse and keyboard go to the desktop; an agent waits. ", part("kbd", "", "Shift"), "+", part("kbd", "", "Esc"), " gives control back.");
    } else {
      hint.textContent = who === "other" ? "Somebody else is in control." : LOOKING;
    }
  }
  control.onclick = () => { send({ do: "control", on: !mine }); if (!mine) screen.focus(); };
  const act = (given) => { if (mine) { flush(); send({ do: "act", arguments: given }); } };

  // -- the mouse: a click waits a moment, for it may be the first half of a double one
  const AGAIN = 260, FAR = 5;
  let down = null, single = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const clamp = (value, most) => Math.max(0, Math.min(most - 1, Math.floor(value)));
    return [clamp((event.clientX - box.left) / box.width * W, W), clamp((event.clientY - box.top) / box.height * H, H)];
  };
  screen.addEventListener("pointerdown", (event) => {
    if (!mine) return;
    screen.focus();
    event.preventDefault();
    screen.setPointerCapture(event.pointerId);
    down = { at: at(event), x: event.clientX, y: event.clientY, button: event.button };
  });
  screen.addEventListener("pointerup", (event) => {
    if (!mine || !down) return;
    const from = down, to = at(event);
    down = null;
    if (from.button === 1) return act({ action: "middle_click", coordinate: from.at });
    if (from.button === 2) return act({ action: "right_click", coordinate: from.at });
    if (Math.hypot(event.clientX - from.x, event.clientY - from.y) > FAR && String(from.at) !== String(to)) {
      return act({ action: "left_click_drag", start_coordinate: from.at, coordinate: to });
    }
    const near = single && Math.hypot(from.x - single.x, from.y - single.y) <= 2 * FAR;
    if (single) clearTimeout(single.timer);
    if (near) { single = null; return act({ action: "double_click", coordinate: from.at }); }
    if (single) act({ action: "left_click", coordinate: single.at });
    const timer = setTimeout(() => { single = null; act({ action: "left_click", coordinate: from.at }); }, AGAIN);
    single = { at: from.at, x: from.x, y: from.y, timer };
  });
  screen.addEventListener("contextmenu", (event) => mine && event.preventDefault());
  let wheel = 0, wheeling = 0;
  screen.addEventListener("wheel", (event) => {
    if (!mine) return;
    event.preventDefault();
    wheel += event.deltaY * (event.deltaMode === 1 ? 33 : 1);
    const place = at(event);
    wheeling = wheeling || setTimeout(() => {
      const pixels = -Math.round(wheel);
      wheel = wheeling = 0;
      if (pixels) act({ action: "scroll", pixels: Math.max(-2000, Math.min(2000, pixels)), coordinate: place });
    }, 120);
  }, { passive: false });

  // -- the keyboard: runs of characters are typed together, everything else is a chord
  let typed = "", typing = 0;
  function flush() {
    clearTimeout(typing);
    typing = 0;
    const text = typed;
    typed = "";
    if (text) send({ do: "act", arguments: { action: "type", text } });
  }
  const ALONE = ["Control", "Shift", "Alt", "Meta", "AltGraph", "Dead", "Process", "Unidentified"];
  screen.addEventListener("keydown", (event) => {
    if (!mine || event.isComposing || ALONE.includes(event.key)) return;
    event.preventDefault();
    if (event.key === "Escape" && event.shiftKey) { send({ do: "control", on: false }); control.focus(); return; }
    const held = [event.ctrlKey && "ctrl", event.altKey && "alt", event.metaKey && "super"].filter(Boolean);
    const character = [...event.key].length === 1;
    if (character && (!held.length || event.getModifierState("AltGraph"))) {
      typed += event.key;
      clearTimeout(typing);
      typing = setTimeout(flush, 180);
      return;
    }
    if (event.shiftKey) held.push("shift");
    act({ action: "key", keys: [...held, character ? event.key.toLowerCase() : event.key] });
  });
  screen.addEventListener("paste", (event) => {
    if (!mine) return;
    const text = event.clipboardData.getData("text");
    if (text) act({ action: "type", text });
  });
  addEventListener("pagehide", () => { ended = true; });
  setControl("free");
  connect();
})();
