// The page "Density ratios, interactive": draws what interactive-math.js computes, and moves the clouds.
"use strict";

(() => {
  const RANGE = { x: 6, y: 4.5 }, SPREAD = [0.4, 2.4]; // of the picture, and of standard deviations
  const LIMIT = 4; // nats: colors beyond it do not change
  const CELLS = { x: 96, y: 72 }; // of the color field
  const AREA = 14; // square pixels of a point of weight 1
  const NOWHERE = { x: 2.5, y: 1, s: 0.8 };
  const cloud = (x, y, s, share = 0) => ({ x, y, s, share });
  const PRESETS = {
    "small shift": { p: cloud(0.3, 0.2, 1), q: cloud(-0.3, -0.2, 1.1), group: NOWHERE },
    "large shift": { p: cloud(1.2, 0.6, 1), q: cloud(-1.2, -0.6, 1.2), group: NOWHERE },
    "no overlap": { p: cloud(3.3, 1, 0.8), q: cloud(-2.8, -1, 0.9), group: NOWHERE },
    "different spread": { p: cloud(0, 0, 0.8), q: cloud(0, 0, 1.6), group: NOWHERE },
    "rare group": { p: cloud(-1, 0, 1, 0.3), q: cloud(-1, 0, 1, 0.03), group: { x: 2.5, y: 1, s: 0.8 } },
  };
  const NAMES = { p: "Cloud p, the target", q: "Cloud q, the source", group: "Rare group: 30 % of p, 3 % of q" };
  const root = document.getElementById("two-clouds");
  const state = { scene: structuredClone(PRESETS["small shift"]), preset: "small shift", seed: 3, isQuadratic: true, showsTruth: false };
  let standard = draws(), result, isWaiting = false;

  function draws() {
    return { p: TwoClouds.noise(state.seed), q: TwoClouds.noise(state.seed + 1) };
  }

  // ---- elements

  const knobHTML = (name, kind, text) => `<div class="knob ${kind} of-${name}" data-of="${name}" role="slider" tabindex="0">${text}</div>`;
  const row = (name, title, good) => `<tr><th scope="row">${title}<small>${good}</small></th><td id="tc-${name}"></td><td id="tc-true-${name}"></td></tr>`;
  const radio = (group, value, text, isOn) => `<label><input type="radio" name="tc-${group}" value="${value}"${isOn ? " checked" : ""}> ${text}</label>`;

  root.innerHTML = `
    <div class="presets" role="group" aria-label="Examples">
      ${Object.keys(PRESETS).map((name) => `<button type="button" data-preset="${name}">${name}</button>`).join("")}
      <button type="button" data-action="draw">new points</button>
    </div>
    <div>
      <div class="plot">
        <canvas role="img" aria-label="Points of p and q on a color field of log r"></canvas>
        ${knobHTML("p", "center", "p")}${knobHTML("q", "center", "q")}${knobHTML("group", "center", "g")}
        ${knobHTML("p", "spread", "↔")}${knobHTML("q", "spread", "↔")}
      </div>
      <div class="key">
        <div class="ramp"></div><span>more common in q</span><span>more common in p</span>
        <span class="lines">Solid line: estimated r = 1. Dotted line: true r = 1. Crosses: points of p.
          Circles: points of q, with the weight as the area. Rings: two standard deviations.</span>
      </div>
      <fieldset class="choice"><legend>Features</legend>
        ${radio("features", "linear", "linear")}${radio("features", "quadratic", "quadratic", true)}</fieldset>
      <fieldset class="choice"><legend>Colors and weights</legend>
        ${radio("shown", "estimate", "estimated r", true)}${radio("shown", "truth", "true r")}</fieldset>
    </div>
    <div>
      <span class="badge" role="status"></span>
      <p class="reason"></p>
      <table class="numbers"><thead><tr><th scope="col">Number</th><th scope="col">Estimate</th><th scope="col">True</th></tr></thead><tbody>
        ${row("ess", "Effective sample size (ESS)", "good: above 20")}
        ${row("largest", "Largest weight", "1 = the average")}
        ${row("kl", "KL(p ‖ q), nats", "0 = identical, good: below 2.5")}
        ${row("error", "Error of log r, nats", "0 = exact, root mean square")}
        ${row("mean", "Mean of weighted q", "good: equal to the mean of p")}
        <tr><th scope="row">Mean of p</th><td id="tc-mean-p" colspan="2"></td></tr>
        <tr><th scope="row">Mean of q, not weighted</th><td id="tc-mean-q" colspan="2"></td></tr>
      </tbody></table>
    </div>`;

  const canvas = root.querySelector("canvas"), plot = root.querySelector(".plot"), context = canvas.getContext("2d");
  const field = document.createElement("canvas");
  [field.width, field.height] = [CELLS.x, CELLS.y];
  const knobs = [...root.querySelectorAll(".knob")];

  // ---- drawing

  const scale = () => plot.clientWidth / (2 * RANGE.x); // pixels of one unit
  const toPixels = ([x, y]) => [(x + RANGE.x) * scale(), (RANGE.y - y) * scale()];
  const color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const cell = (i, j) => [((i + 0.5) / CELLS.x * 2 - 1) * RANGE.x, (1 - (j + 0.5) / CELLS.y * 2) * RANGE.y];

  function grid(ratio) { // log r in the middle of each cell, row by row
    return Array.from({ length: CELLS.x * CELLS.y }, (_, k) => ratio(cell(k % CELLS.x, Math.floor(k / CELLS.x))));
  }

  function drawField(values) {
    const [neutral, ofP, ofQ] = ["neutral", "p-field", "q-field"].map((name) => channels(color(name)));
    const pen = field.getContext("2d"), image = pen.createImageData(CELLS.x, CELLS.y);
    values.forEach((value, k) => {
      const end = value > 0 ? ofP : ofQ, share = Math.min(Math.abs(value) / LIMIT, 1);
      for (let c = 0; c < 3; c++) image.data[4 * k + c] = neutral[c] + share * (end[c] - neutral[c]);
      image.data[4 * k + 3] = 255;
    });
    pen.putImageData(image, 0, 0);
    context.drawImage(field, 0, 0, plot.clientWidth, plot.clientHeight);
  }

  function crossings(corners) { // where log r is 0 on the four sides of a square: [x, y, log r] each
    return corners.flatMap((a, k) => {
      const b = corners[(k + 1) % 4];
      if (a[2] > 0 === b[2] > 0) return [];
      const t = a[2] / (a[2] - b[2]);
      return [[a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])]];
    });
  }

  function drawContour(values, isDotted = false) { // the line r = 1, by marching squares. Dots are every other square
    context.beginPath();
    for (let j = 0; j + 1 < CELLS.y; j++) {
      for (let i = 0; i + 1 < CELLS.x; i++) {
        if (isDotted && (i + j) % 2) continue;
        const square = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
        const ends = crossings(square.map(([a, b]) => [...cell(a, b), values[b * CELLS.x + a]])).map(toPixels);
        for (let k = 0; k + 1 < ends.length; k += 2) { context.moveTo(...ends[k]); context.lineTo(...ends[k + 1]); }
      }
    }
    stroke("line", isDotted ? 3 : 1.5);
  }

  function stroke(name, width) {
    [context.strokeStyle, context.lineWidth] = [color(name), width];
    context.stroke();
  }

  function drawCrosses(points) {
    context.beginPath();
    for (const [x, y] of points.map(toPixels)) {
      context.moveTo(x - 2.5, y); context.lineTo(x + 2.5, y);
      context.moveTo(x, y - 2.5); context.lineTo(x, y + 2.5);
    }
    stroke("p-ink", 1);
  }

  function drawCircles(points, logR) { // area in proportion to the weight, whose mean is 1
    const top = Math.max(...logR), weights = logR.map((value) => Math.exp(value - top));
    const mean = weights.reduce((a, b) => a + b) / weights.length;
    context.beginPath();
    points.map(toPixels).forEach(([x, y], i) => {
      const radius = Math.sqrt(AREA * weights[i] / mean / Math.PI);
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    });
    [context.fillStyle, context.globalAlpha] = [color("q-ink"), 0.35];
    context.fill();
    context.globalAlpha = 1;
    stroke("q-ink", 1);
  }

  function drawRing({ x, y, s }, name) {
    context.beginPath();
    context.arc(...toPixels([x, y]), 2 * s * scale(), 0, 2 * Math.PI);
    stroke(name, 2);
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, { scene } = state;
    [canvas.width, canvas.height] = [plot.clientWidth * ratio, plot.clientHeight * ratio];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const estimate = grid(result.logRatio), truth = grid(result.truth);
    drawField(state.showsTruth ? truth : estimate);
    drawCrosses(result.points.p);
    drawCircles(result.points.q, (state.showsTruth ? result.trueLogR : result.logR).q);
    drawContour(truth, true);
    drawContour(estimate);
    drawRing(scene.p, "p-ink");
    drawRing(scene.q, "q-ink");
  }

  // ---- knobs

  function place(knob) {
    const name = knob.dataset.of, part = state.scene[name], isSpread = knob.classList.contains("spread");
    const side = name === "p" ? 1 : -1;
    let [x, y] = toPixels([part.x + (isSpread ? side * 2 * part.s : 0), part.y]);
    if (!isSpread && name !== "group") y -= side * apart();
    const room = isSpread ? 14 : 18;
    knob.style.left = `${Math.min(Math.max(x, room), plot.clientWidth - room)}px`;
    knob.style.top = `${Math.min(Math.max(y, room), plot.clientHeight - room)}px`;
    knob.hidden = name === "group" && !state.scene.p.share;
    describe(knob, name, part, isSpread);
  }

  function apart() { // pixels by which the knobs of p and q move up and down where they would hide each other
    const { p, q } = state.scene;
    return Math.max(0, 36 - Math.hypot(p.x - q.x, p.y - q.y) * scale()) / 2;
  }

  function describe(knob, name, part, isSpread) {
    const values = isSpread ? [...SPREAD, part.s] : [-RANGE.x, RANGE.x, part.x];
    ["valuemin", "valuemax", "valuenow"].forEach((key, k) => knob.setAttribute(`aria-${key}`, values[k].toFixed(1)));
    const spread = `standard deviation ${part.s.toFixed(1)}`;
    knob.setAttribute("aria-label", isSpread ? `${NAMES[name]}: spread` : NAMES[name]);
    knob.setAttribute("aria-valuetext", isSpread ? spread : `center ${part.x.toFixed(1)}, ${part.y.toFixed(1)}, ${spread}`);
  }

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  function move(name, x, y) {
    Object.assign(state.scene[name], { x: clamp(x, -RANGE.x, RANGE.x), y: clamp(y, -RANGE.y, RANGE.y) });
    changed();
  }

  function spread(name, s) {
    state.scene[name].s = clamp(s, ...SPREAD);
    changed();
  }

  function changed() {
    state.preset = "";
    request();
  }

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const SIZES = { "+": 1, "=": 1, "-": -1, _: -1 };

  function press(event) {
    const knob = event.currentTarget, name = knob.dataset.of, part = state.scene[name];
    const isSpread = knob.classList.contains("spread"), arrow = ARROWS[event.key], step = event.shiftKey ? 0.5 : 0.1;
    const size = SIZES[event.key] ?? (isSpread && arrow ? arrow[0] + arrow[1] : 0);
    if (event.ctrlKey || event.metaKey || event.altKey || !(arrow || size)) return;
    event.preventDefault();
    if (size) spread(name, part.s + 0.1 * size);
    else move(name, part.x + step * arrow[0], part.y + step * arrow[1]);
  }

  function grab(event) {
    if (event.button) return;
    const knob = event.currentTarget, name = knob.dataset.of, start = { ...state.scene[name] };
    const isSpread = knob.classList.contains("spread"), side = name === "p" ? 1 : -1;
    const follow = (now) => {
      const dx = (now.clientX - event.clientX) / scale(), dy = (event.clientY - now.clientY) / scale();
      if (isSpread) spread(name, start.s + side * dx / 2);
      else move(name, start.x + dx, start.y + dy);
    };
    knob.setPointerCapture(event.pointerId);
    knob.addEventListener("pointermove", follow);
    const release = () => knob.removeEventListener("pointermove", follow);
    knob.addEventListener("lostpointercapture", release, { once: true });
  }

  // ---- numbers in words

  const text = (id, words) => { document.getElementById(`tc-${id}`).textContent = words; };
  const pair = (values) => values.map((value) => value.toFixed(2).replace("-", "−").replace(/^−(0\.00)$/, "$1")).join(", ");

  function write() {
    for (const [prefix, of] of [["", result.estimate], ["true-", result.exact]]) {
      text(`${prefix}ess`, `${of.ess.toFixed(0)} of ${TwoClouds.N} (${TwoClouds.percent(of.ess / TwoClouds.N)})`);
      text(`${prefix}largest`, of.largestWeight.toFixed(1));
      text(`${prefix}kl`, of.kl.toFixed(2).replace("-", "−"));
      text(`${prefix}mean`, pair(of.meanWeighted));
    }
    text("error", result.error.toFixed(2));
    text("true-error", "0");
    text("mean-p", pair(result.means.p));
    text("mean-q", pair(result.means.q));
    const badge = root.querySelector(".badge");
    if (badge.textContent !== result.verdict) badge.textContent = badge.dataset.verdict = result.verdict;
    root.querySelector(".reason").textContent = result.reason;
    for (const button of root.querySelectorAll("[data-preset]")) {
      button.setAttribute("aria-pressed", String(button.dataset.preset === state.preset));
    }
  }

  // ---- the loop: one evaluation for each frame in which something changed

  function update() {
    isWaiting = false;
    result = TwoClouds.evaluate(state.scene, standard, state.isQuadratic);
    write();
    knobs.forEach(place);
    draw();
  }

  function request() {
    if (!isWaiting) requestAnimationFrame(update);
    isWaiting = true;
  }

  function click(event) {
    const { preset, action } = event.target.dataset;
    if (preset) [state.scene, state.preset] = [structuredClone(PRESETS[preset]), preset];
    if (action) { state.seed += 2; standard = draws(); }
    if (preset || action) request();
  }

  function choose(event) {
    if (event.target.name === "tc-features") state.isQuadratic = event.target.value === "quadratic";
    if (event.target.name === "tc-shown") state.showsTruth = event.target.value === "truth";
    request();
  }

  for (const knob of knobs) {
    knob.addEventListener("keydown", press);
    knob.addEventListener("pointerdown", grab);
  }
  root.addEventListener("click", click);
  root.addEventListener("change", choose);
  new ResizeObserver(request).observe(plot);
  new MutationObserver(request).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
  const snapshot = () => JSON.parse(JSON.stringify({ ...result, ...state, thresholds: TwoClouds.THRESHOLDS }));
  Object.defineProperty(window, "twoClouds", { get: snapshot }); // a copy, for tests and for the curious
  update();
})();
