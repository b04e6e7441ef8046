"use strict";
(() => {
  const E = JSON.parse(document.getElementById("evidence").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  // ---- words and numbers

  const sig = (value, digits = 3) => {
    if (value === null || !Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 1).replace("e+", "e").replace("-", "−");
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Number(size.toPrecision(digits)))));
    return grouped(Number(value.toPrecision(digits)).toFixed(places));
  };
  const grouped = (text) => {
    const [whole, part] = text.replace("-", "−").split(".");
    return whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") + (part === undefined ? "" : "." + part);
  };
  const count = (value) => (value < 9.5 && !Number.isInteger(value) ? sig(value, 2) : grouped(value.toFixed(0)));
  const percent = (share) => {
    if (share > 0 && share < 0.001) return "<\u00a00.1\u00a0%";
    if (share >= 0.9995 && share < 1) return ">\u00a099.9\u00a0%";
    return `${(100 * share).toFixed((share > 0 && share < 0.0995) || (share > 0.99 && share < 1) ? 1 : 0)}\u00a0%`;
  };
  const day = (days) => new Date(Math.max(-1e8, Math.min(1e8, days)) * 864e5).toISOString().split("T")[0];
  const shown = (column) => (column.kind === "date" ? day : (value) => sig(value));

  const short = (name, length) => (name.length > length ? name.slice(0, length - 1) + "…" : name);
  const inBoth = (p, q) => `${short(E.files.q, 30)} ${percent(q)} → ${short(E.files.p, 30)} ${percent(p)}`;

  // ---- drawing

  const make = (name, attributes = {}, ...inside) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...inside);
    return node;
  };
  /* A picture whose values can be read with the arrow keys. */
  const reading = (label) => ({ role: "img", tabindex: 0, "aria-label": `${label}. Press the arrow keys to read the values.` });
  const extent = (values) => values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
  const ticks = (low, high, wanted) => {
    const rough = (high - low) / Math.max(wanted, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
    const values = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) values.push(k * step);
    return values;
  };
  const path = (xs, ys) => xs.map((x, i) => `${i ? "L" : "M"}${x.toFixed(1)} ${ys[i].toFixed(1)}`).join("");
  const steps = (edges, heights, X, Y) => {
    let d = `M${X(edges[0]).toFixed(1)} ${Y(0).toFixed(1)}`;
    heights.forEach((h, i) => (d += `V${Y(h).toFixed(1)}H${X(edges[i + 1]).toFixed(1)}`));
    return d + `V${Y(0).toFixed(1)}`;
  };

  /* A picture with axes: returns the drawing and the two scales. */
  const frame = (host, { label, height, x, y, xName, yName, left = 46, square = false, yText = null, most = Infinity }) => {
    const width = Math.min(Math.max(host.clientWidth, 240), most);
    const box = { left, right: width - 8, top: 10, bottom: 0 };
    const tall = square ? Math.min(width, 400) : height;
    if (square) box.right = box.left + Math.min(width - 8 - left, tall - 54);
    box.bottom = tall - 44;
    const X = (v) => box.left + ((v - x[0]) / (x[1] - x[0])) * (box.right - box.left);
    const Y = (v) => box.bottom - ((v - y[0]) / (y[1] - y[0])) * (box.bottom - box.top);
    const svg = make("svg", { viewBox: `0 0 ${width} ${tall}`, ...reading(label) });
    svg.style.maxWidth = `${width}px`;
    const along = ticks(...x, (box.right - box.left) / 60);
    for (const v of along) {
      svg.append(make("line", { x1: X(v), x2: X(v), y1: box.bottom, y2: box.bottom + 5, class: "axis" }));
      svg.append(make("text", { x: X(v), y: box.bottom + 19, "text-anchor": "middle" }, tick(v, along)));
    }
    const up = ticks(...y, (box.bottom - box.top) / 50);
    for (const v of up) {
      svg.append(make("line", { x1: box.left, x2: box.right, y1: Y(v), y2: Y(v), class: "axis" }));
      svg.append(make("text", { x: box.left - 7, y: Y(v) + 4, "text-anchor": "end" }, yText ? yText(v) : tick(v, up)));
    }
    svg.append(make("text", { x: (box.left + box.right) / 2, y: tall - 6, "text-anchor": "middle" }, xName));
    if (yName) {
      const at = (box.top + box.bottom) / 2;
      svg.append(make("text", { x: 11, y: at, "text-anchor": "middle", transform: `rotate(-90 11 ${at})` }, yName));
    }
    host.replaceChildren(svg);
    return { svg, X, Y, box, width, tall };
  };
  /* A number on an axis, with as many decimals as the step between two of them asks for. */
  const tick = (v, all) => {
    const step = all.length > 1 ? all[1] - all[0] : Math.abs(v) || 1;
    if (Math.abs(v) < 1e-9 * step) return "0";
    const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return Math.abs(v) >= 1e6 || places > 6 ? sig(v) : grouped(v.toFixed(places));
  };
  const keys = {
    pq: [[["path", { d: "M1 12V4H25V12Z", class: "q-area" }], ["path", { d: "M1 12V4H25V12", class: "q-line" }], `rows of ${E.files.q}`], [["path", { d: "M1 12V3H25V12", class: "p-line" }], `rows of ${E.files.p}`]],
    balance: [[["circle", { cx: 13, cy: 7, r: 4.5, class: "open-mark" }], "before"], [["path", { d: "M13 1L19 7L13 13L7 7Z", class: "ink-mark" }], "after weighting, with a 95\u00a0% interval"]],
    training: [[["line", { x1: 0, x2: 26, y1: 7, y2: 7, class: "p-line" }], "training rows"], [["line", { x1: 0, x2: 26, y1: 7, y2: 7, class: "ink-dash" }], "held-out rows"]],
    latent: [[["circle", { cx: 13, cy: 7, r: 4, class: "dot-p c6" }], `rows of ${E.files.p}`], [["circle", { cx: 13, cy: 7, r: 4, class: "dot-q c2" }], `rows of ${E.files.q}`]],
  };
  const drawKeys = () => {
    for (const list of document.querySelectorAll("[data-key]")) {
      for (const entry of keys[list.dataset.key]) {
        const item = document.createElement("li");
        const icon = make("svg", { viewBox: "0 0 26 14", "aria-hidden": "true" });
        for (const [name, attributes] of entry.slice(0, -1)) icon.append(make(name, attributes));
        item.append(icon, entry[entry.length - 1]);
        list.append(item);
      }
      if (list.dataset.key === "latent") list.append(colorKey());
    }
  };

  // ---- log-ratio

  const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(share * (sorted.length - 1))))];
  const binned = (values, low, high, n) => {
    const shares = new Array(n).fill(0);
    for (const v of values) shares[Math.min(n - 1, Math.max(0, Math.floor(((v - low) / (high - low)) * n)))] += 1 / values.length;
    return shares;
  };
  const drawLogRatio = (host) => {
    const { log_p, log_q } = E.rows;
    const both = [...log_p, ...log_q].sort((a, b) => a - b);
    let [low, high] = [quantile(both, 0.001), quantile(both, 0.999)];
    if (!(high - low > 1e-9)) [low, high] = [low - 0.5, high + 0.5];
    const n = Math.max(12, Math.min(48, Math.round(2 * both.length ** (1 / 3))));
    const [p, q] = [binned(log_p, low, high, n), binned(log_q, low, high, n)];
    const edges = Array.from({ length: n + 1 }, (_, i) => low + ((high - low) * i) / n);
    const top = 1.08 * Math.max(...p, ...q);
    const { svg, X, Y, box } = frame(host, {
      label: `Histogram of log r in ${E.files.p} and ${E.files.q}`, height: 300, x: [low, high], y: [0, top],
      xName: "log r, nats", yName: "share of the rows", left: 60, yText: (v) => `${Number((100 * v).toPrecision(3))}\u00a0%`,
    });
    svg.append(make("path", { d: steps(edges, q, X, Y), class: "q-area" }), make("path", { d: steps(edges, q, X, Y), class: "q-line" }));
    svg.append(make("path", { d: steps(edges, p, X, Y), class: "p-line" }));
    if (low < 0 && high > 0) svg.append(make("line", { x1: X(0), x2: X(0), y1: box.top, y2: box.bottom, class: "dots" }));
    p.forEach((share, i) => svg.append(make("rect", {
      x: X(edges[i]), width: X(edges[i + 1]) - X(edges[i]), y: box.top, height: box.bottom - box.top, class: "hit",
      "data-tip": `log r ${sig(edges[i], 2)} to ${sig(edges[i + 1], 2)}\n${inBoth(share, q[i])}`,
    })));
  };

  // ---- weights: temper, cap, and see

  const asFitted = { gamma: 1, cap: Infinity };
  const now = { ...asFitted };
  /* The limit at which no weight is above a multiple of the mean of the limited weights, as `cap` in Python. */
  const limit = (w, multiple) => {
    const sorted = [...w].sort((a, b) => b - a);
    let rest = sorted.reduce((a, b) => a + b, 0);
    for (let k = 0; k < sorted.length; k++) {
      const level = (multiple * rest) / (sorted.length - multiple * k);
      if (level >= sorted[k] * (1 - 1e-12)) return level;
      rest -= sorted[k];
    }
    return sorted[sorted.length - 1];
  };
  /* Weights of a mean of 1 from log-ratios, raised to a power and then cut at a multiple of the mean. */
  const weigh = (log_r, { gamma, cap }) => {
    const top = gamma * log_r.reduce((a, b) => Math.max(a, b), -Infinity);
    let w = log_r.map((v) => Math.exp(gamma * v - top));
    const most = cap === Infinity ? Infinity : limit(w, cap);
    w = w.map((v) => Math.min(v, most));
    const left = w.reduce((a, b) => a + b, 0) / w.length;
    return w.map((v) => v / left);
  };
  const effective = (w) => w.reduce((a, b) => a + b, 0) ** 2 / w.reduce((a, b) => a + b * b, 0);
  const mean = (values, w) => values.reduce((sum, v, i) => sum + v * w[i], 0) / w.reduce((a, b) => a + b, 0);
  const ones = new Array(E.rows.p.length ? E.rows.p[0].length : 0).fill(1);
  const differences = (setting) => {
    const w = weigh(E.rows.log_q.slice(0, E.rows.q.length ? E.rows.q[0].length : 0), setting);
    return E.rows.p.map((column, j) => (mean(column, ones) - mean(E.rows.q[j], w)) / E.rows.scale[j]);
  };
  const base = E.rows.p.length ? differences(asFitted) : [];
  /* Differences of all rows, as they were fitted, and of some rows what the setting changes. */
  const balanceNow = () => differences(now).map((v, j) => E.balance[j].after + v - base[j]);
  const untouched = () => now.gamma === 1 && now.cap === Infinity;

  const drawWeights = (host) => {
    const w = weigh(E.rows.log_q, now).sort((a, b) => a - b);
    const first = weigh(E.rows.log_q, asFitted).sort((a, b) => a - b);
    const { svg, X, Y, box } = frame(host, {
      label: "Lorenz curve of the weights", height: 300, x: [0, 1], y: [0, 1], square: true, most: 320, left: 50,
      xName: "share of rows, lightest first", yName: "share of the weight",
    });
    const curve = (of) => {
      const every = Math.max(1, Math.floor(of.length / 200));
      const [xs, ys] = [[0], [0]];
      let sum = 0;
      of.forEach((v, i) => {
        sum += v / of.length;
        if (i % every === every - 1 || i === of.length - 1) { xs.push((i + 1) / of.length); ys.push(Math.min(1, sum)); }
      });
      return [xs, ys];
    };
    svg.append(make("line", { x1: X(0), y1: Y(0), x2: X(1), y2: Y(1), class: "dash" }));
    if (!untouched()) { const [xs, ys] = curve(first); svg.append(make("path", { d: path(xs.map(X), ys.map(Y)), class: "ghost" })); }
    const [xs, ys] = curve(w);
    svg.append(make("path", { d: path(xs.map(X), ys.map(Y)), class: "ink-line" }));
    svg.append(make("text", { x: X(0.05), y: Y(0.9), class: "ink" }, "dashed: equal weights"));
    const wide = (box.right - box.left) / 20;
    for (let k = 0; k < 20; k++) {
      const at = xs.findIndex((x) => x >= (k + 1) / 20 - 1e-9);
      svg.append(make("rect", { x: X(k / 20), width: wide, y: box.top, height: box.bottom - box.top, class: "hit",
        "data-tip": `The lightest ${percent(xs[at])} of rows\nhave ${percent(ys[at])} of the weight` }));
    }
  };

  const say = () => {
    const w = weigh(E.rows.log_q, now);
    byId("temper-text").textContent = `γ = ${sig(now.gamma, 2)}`;
    byId("cap-text").textContent = now.cap === Infinity ? "no cap" : `cap ${sig(now.cap)} × mean`;
    byId("temper").setAttribute("aria-valuetext", byId("temper-text").textContent);
    byId("cap").setAttribute("aria-valuetext", byId("cap-text").textContent);
    const options = [now.gamma === 1 ? "" : ` --temper ${Number(now.gamma.toFixed(2))}`, now.cap === Infinity ? "" : ` --cap ${Number(now.cap.toPrecision(3))}`];
    byId("score-line").textContent = `${E.score}${options.join("")}`;
    const tempered = now.gamma === 1 ? "log_r" : `temper(log_r, ${Number(now.gamma.toFixed(2))})`;
    const log_w = now.cap === Infinity ? tempered : `cap(${tempered}, ${Number(now.cap.toPrecision(3))})`;
    const names = ["self_normalize", ...(now.gamma === 1 ? [] : ["temper"]), ...(now.cap === Infinity ? [] : ["cap"])];
    byId("code").textContent = `from flowratio import ${names.join(", ")}\nw = self_normalize(${log_w}, total=len(log_r))`;
    for (const [id, value] of Object.entries(E.fitted)) byId(id).textContent = value;
    if (untouched()) return;
    const size = balanceNow().map(Math.abs);
    byId("now-ess").textContent = count((effective(w) / w.length) * E.n_q);
    byId("now-worst").textContent = sig(Math.max(0, ...size));
    byId("now-mean").textContent = sig(size.reduce((a, b) => a + b, 0) / Math.max(1, size.length));
    byId("now-largest").textContent = sig(w.reduce((a, b) => Math.max(a, b), 0));
    let [sum, rows] = [0, 0];
    for (const v of [...w].sort((a, b) => b - a)) { sum += v; rows += 1; if (sum >= w.length / 2) break; }
    byId("now-half").textContent = percent(rows / w.length);
  };
  const largest = () => Math.max(1.001, weigh(E.rows.log_q, { gamma: now.gamma, cap: Infinity }).reduce((a, b) => Math.max(a, b), 0));
  const turn = () => {
    now.gamma = 1 - byId("temper").value / 100;
    const cut = byId("cap").value / 100;
    now.cap = cut === 0 ? Infinity : Math.exp(Math.log(largest()) * (1 - cut));
    say();
    drawWeights(byId("chart-weights"));
    drawBalance(byId("chart-balance"));
  };

  // ---- reliability

  const drawReliability = (host) => {
    const c = E.reliability;
    const { svg, X, Y } = frame(host, {
      label: `Reliability curve: observed share of ${E.files.p} against the probability that the ratio gives`, height: 360, x: [0, 1], y: [0, 1], square: true, most: 420, left: 50,
      xName: `probability of ${short(E.files.p, 24)}, r / (1 + r)`, yName: `observed share of ${short(E.files.p, 24)}`,
    });
    svg.append(make("line", { x1: X(0), y1: Y(0), x2: X(1), y2: Y(1), class: "dash" }));
    svg.append(make("path", { d: path(c.predicted.map(X), c.observed.map(Y)), class: "p-line" }));
    c.predicted.forEach((v, i) => {
      svg.append(make("line", { x1: X(v), x2: X(v), y1: Y(c.low[i]), y2: Y(c.high[i]), class: "error" }));
      svg.append(make("circle", { cx: X(v), cy: Y(c.observed[i]), r: 4.5, class: "p-bar" }));
      svg.append(make("circle", { cx: X(v), cy: Y(c.observed[i]), r: 12, class: "hit",
        "data-tip": `probability ${percent(v)}, observed ${percent(c.observed[i])}\n(${percent(c.low[i])} to ${percent(c.high[i])})` }));
    });
  };

  // ---- balance

  const drawBalance = (host) => {
    if (!E.balance.length) return;
    const after = balanceNow();
    const bound = (v) => Math.max(-3, Math.min(3, v));
    const reach = E.balance.flatMap((one, j) => [one.before, one.after, after[j]]).map(bound);
    const [low, high] = extent([-0.15, 0.15, ...reach]);
    const width = host.clientWidth;
    const left = Math.min(200, Math.round(width * 0.36));
    const row = 25;
    const { svg, X, box } = frame(host, {
      label: "Standardized mean differences before and after weighting", height: row * E.balance.length + 60, left,
      x: [low - 0.05 * (high - low), high + 0.05 * (high - low)], y: [0, 1], xName: width < 500 ? "standard deviations" : `${short(E.files.p, 24)} minus ${short(E.files.q, 24)}, in standard deviations`, yText: () => "",
    });
    for (const line of svg.querySelectorAll(".axis")) if (line.getAttribute("y1") === line.getAttribute("y2")) line.remove();
    svg.append(make("line", { x1: X(0), x2: X(0), y1: box.top, y2: box.bottom, class: "zero" }));
    for (const v of [-0.1, 0.1]) svg.append(make("line", { x1: X(v), x2: X(v), y1: box.top, y2: box.bottom, class: "dots" }));
    E.balance.forEach((one, j) => {
      const y = box.top + (j + 0.5) * row;
      const [from, to] = [X(bound(one.before)), X(bound(after[j]))];
      const [near, far] = [-1.96, 1.96].map((k) => Math.max(box.left, Math.min(box.right, X(bound(after[j] + k * one.error)))));
      svg.append(make("text", { x: left - 10, y: y + 4, "text-anchor": "end", class: "ink" }, short(one.name, Math.floor(left / 6.6))));
      svg.append(make("line", { x1: from, x2: to, y1: y, y2: y, class: "link" }));
      if (untouched()) svg.append(make("line", { x1: near, x2: far, y1: y, y2: y, class: "error" }));
      svg.append(make("circle", { cx: from, cy: y, r: 4.5, class: "open-mark" }));
      svg.append(make("path", { d: `M${to} ${y - 6}l6 6l-6 6l-6 -6Z`, class: "ink-mark" }));
      const beyond = [one.before, after[j]].filter((v) => bound(v) !== v);
      if (beyond.length) {  // an arrow and the numbers: the chart ends at ±3
        const right = beyond[0] > 0;
        const text = right ? `${beyond.map((v) => sig(v)).join(", ")} →` : `← ${beyond.map((v) => sig(v)).join(", ")}`;
        svg.append(make("text", { x: X(bound(beyond[0])) + (right ? -9 : 9), y: y - 4, "text-anchor": right ? "end" : "start", class: "ink beyond" }, text));
      }
      svg.append(make("rect", { x: 0, width: box.right, y: y - row / 2, height: row, class: "hit",
        "data-tip": `${one.name}\nbefore ${sig(one.before)}, after ${sig(after[j])}${untouched() ? ` ± ${sig(one.error, 2)}` : ""}` }));
    });
  };

  // ---- columns

  const drawSpark = (cell, column) => {
    const [width, height] = [184, 44];
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", ...reading(`Distribution of ${column.name} in both files`) });
    const across = Boolean(column.histogram);
    const bars = across ? sparkOfNumbers(svg, column, width, height) : sparkOfCategories(svg, column, width, height);
    for (const [at, size, tip] of bars) {
      const place = across ? { x: at, width: size, y: 0, height } : { x: 0, width, y: at, height: size };
      svg.append(make("rect", { ...place, class: "hit", "data-tip": `${column.name}\n${tip}` }));
    }
    cell.replaceChildren(svg);
  };
  const sparkOfNumbers = (svg, column, width, height) => {
    const { edges, p, q } = column.histogram;
    const X = (v) => 1 + ((v - edges[0]) / (edges[edges.length - 1] - edges[0])) * (width - 2);
    const top = Math.max(...p, ...q, 1e-9);
    svg.append(make("line", { x1: 0, x2: width, y1: height - 1, y2: height - 1, class: "axis" }));
    const Y = (v) => height - 1 - (v / top) * (height - 4);
    svg.append(make("path", { d: steps(edges, q, X, Y), class: "q-area" }), make("path", { d: steps(edges, q, X, Y), class: "q-line" }), make("path", { d: steps(edges, p, X, Y), class: "p-line" }));
    const text = shown(column);
    return p.map((share, i) => [X(edges[i]), X(edges[i + 1]) - X(edges[i]), `${text(edges[i])} to ${text(edges[i + 1])}\n${inBoth(share, q[i])}`]);
  };
  /* Names and bars of the categories that changed most. */
  const sparkOfCategories = (svg, column, width, height) => {
    svg.setAttribute("preserveAspectRatio", "xMinYMid meet");
    const top = Math.max(...column.largest.flatMap((one) => [one.p, one.q]), 1e-9);
    const [left, tall] = [84, height / 3];
    return column.largest.map((one, i) => {
      const size = (v) => (v / top) * (width - left - 2);
      svg.append(make("text", { x: left - 6, y: (i + 0.7) * tall, "text-anchor": "end", class: "ink" }, short(one.category, 14)));
      svg.append(make("rect", { x: left, y: i * tall + 2, width: size(one.q), height: tall / 2 - 2, class: "q-bar" }));
      svg.append(make("rect", { x: left, y: (i + 0.5) * tall, width: size(one.p), height: tall / 2 - 2, class: "p-bar" }));
      return [i * tall, tall, `${one.category}\n${inBoth(one.p, one.q)}`];
    });
  };
  const drawColumns = () => {
    for (const row of document.querySelectorAll("tr[data-column]")) drawSpark(row.querySelector(".spark"), E.columns[row.dataset.column]);
  };

  /* Headers become buttons that sort: the first click puts the largest first, or names from a to z. */
  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    const sort = (at, rising) => {
      const value = (row) => {
        const cell = row.cells[at];
        if (at === 0) return cell.dataset.v;
        return cell.dataset.by === "size" ? Math.abs(cell.dataset.v) : Number(cell.dataset.v);
      };
      const compare = (a, b) => (at === 0 ? a.localeCompare(b) : a - b) * (rising ? 1 : -1);
      const rows = [...table.tBodies[0].rows].sort((a, b) => compare(value(a), value(b)));
      table.tBodies[0].append(...rows);
      heads.forEach((head, j) => (j === at ? head.setAttribute("aria-sort", rising ? "ascending" : "descending") : head.removeAttribute("aria-sort")));
    };
    heads.forEach((head, at) => {
      if (head.dataset.plain !== undefined) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const order = head.getAttribute("aria-sort");
        sort(at, order ? order === "descending" : at === 0);
      });
    });
  };

  // ---- latent space and training

  const shade = (log_r, reach) => Math.max(0, Math.min(8, Math.round(4 + (4 * log_r) / reach)));
  const reachOf = () => {
    const sizes = [...E.rows.log_p, ...E.rows.log_q].map(Math.abs).sort((a, b) => a - b);
    return Math.max(quantile(sizes, 0.95), 1e-9);
  };
  const colorKey = () => {
    const item = document.createElement("li");
    const icon = make("svg", { viewBox: "0 0 90 14", "aria-hidden": "true" });
    icon.style.width = "90px";
    for (let k = 0; k < 9; k++) icon.append(make("rect", { x: 10 * k, y: 2, width: 10, height: 10, class: `dot-p c${k}` }));
    item.append(`log r −${sig(reachOf(), 2)}`, icon, `+${sig(reachOf(), 2)}`);
    return item;
  };
  const drawLatent = (host) => {
    if (!E.latent) return;
    const { names, p, q } = E.latent;
    const [xs_p, xs_q] = [p[0], q[0]];
    const [ys_p, ys_q] = [p[1] || E.rows.log_p, q[1] || E.rows.log_q];
    const wide = (values) => {
      const sorted = [...values].sort((a, b) => a - b);
      const [low, high] = [quantile(sorted, 0.002), quantile(sorted, 0.998)];
      return high > low ? [low - 0.05 * (high - low), high + 0.05 * (high - low)] : [low - 1, low + 1];
    };
    const [x, y] = [wide([...xs_p, ...xs_q]), wide([...ys_p.slice(0, xs_p.length), ...ys_q.slice(0, xs_q.length)])];
    const height = Math.max(300, Math.min(460, host.clientWidth * 0.8));
    const { svg, X, Y } = frame(host, { label: "Scatter of latent rows, shaded by log r", height, x, y, xName: names[0], yName: names[1] || "log r, nats" });
    const reach = reachOf();
    const dots = [];
    for (const [xs, ys, logs, sample] of [[xs_q, ys_q, E.rows.log_q, "q"], [xs_p, ys_p, E.rows.log_p, "p"]]) {
      xs.forEach((v, i) => {
        if (v < x[0] || v > x[1] || ys[i] < y[0] || ys[i] > y[1]) return;
        dots.push([(i * 7919) % 1009, make("circle", { cx: X(v).toFixed(1), cy: Y(ys[i]).toFixed(1), r: sample === "p" ? 2.3 : 2.6,
          class: `dot-${sample} c${shade(logs[i], reach)}`, "data-tip": `row of ${E.files[sample]}\nlog r ${sig(logs[i])}` })]);
      });
    }
    svg.append(...dots.sort((a, b) => a[0] - b[0]).map((one) => one[1])); // neither sample covers the other
  };
  const drawTraining = (host) => {
    const t = E.training;
    if (!t) return;
    const losses = [...t.train_loss, ...t.held_out_loss].filter((v) => v !== null).sort((a, b) => a - b);
    if (!losses.length) return;
    let [low, high] = [losses[0], quantile(losses, 0.97)];
    if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
    const pad = 0.06 * (high - low);
    const x = extent(t.epoch);
    if (x[0] === x[1]) x[1] += 1;
    const y = [low - pad, high + pad];
    const { svg, X, Y, box } = frame(host, { label: "Losses by epoch", height: 280, x, y, xName: "epoch", yName: "loss, nats", left: 56 });
    const within = (v) => Y(Math.max(y[0], Math.min(y[1], v === null ? y[1] : v)));
    svg.append(make("path", { d: path(t.epoch.map(X), t.train_loss.map(within)), class: "p-line" }));
    svg.append(make("path", { d: path(t.epoch.map(X), t.held_out_loss.map(within)), class: "ink-dash" }));
    if (t.best_epoch >= x[0] && t.best_epoch <= x[1]) {
      svg.append(make("line", { x1: X(t.best_epoch), x2: X(t.best_epoch), y1: box.top, y2: box.bottom, class: "dots" }));
      const end = X(t.best_epoch) > (box.left + box.right) / 2;
      svg.append(make("text", { x: X(t.best_epoch) + (end ? -6 : 6), y: box.top + 12, "text-anchor": end ? "end" : "start" }, "used"));
    }
    const each = (box.right - box.left) / t.epoch.length;
    t.epoch.forEach((v, i) => svg.append(make("rect", { x: Math.max(box.left, X(v) - each / 2), width: each, y: box.top, height: box.bottom - box.top, class: "hit",
      "data-tip": `epoch ${v}\ntraining ${sig(t.train_loss[i], 4)}, held out ${sig(t.held_out_loss[i], 4)}` })));
  };

  // ---- the page

  const charts = {
    "chart-log-ratio": drawLogRatio, "chart-weights": drawWeights, "chart-reliability": drawReliability,
    "chart-balance": drawBalance, "chart-latent": drawLatent, "chart-training": drawTraining,
  };
  const draw = () => {
    for (const [id, of] of Object.entries(charts)) if (byId(id)) of(byId(id));
  };
  const marks = (svg) => [...svg.querySelectorAll("[data-tip]")];
  const tips = () => {
    const tip = byId("tip");
    let current = null;
    const hide = () => {
      if (current) current.classList.remove("on");
      current = null;
      tip.hidden = true;
    };
    const showAt = (on, x, y) => {
      if (on !== current) hide();
      current = on;
      tip.hidden = false;
      tip.textContent = on.getAttribute("data-tip");
      const { width, height } = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(6, Math.min(x + 14, window.innerWidth - width - 6))}px`;
      tip.style.top = `${y - height - 12 > 0 ? y - height - 12 : y + 18}px`;
    };
    const point = (event) => {
      const on = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
      if (on) showAt(on, event.clientX, event.clientY);
      else hide();
    };
    /* Show a mark of the picture that has the focus, and read it aloud. */
    const read = (on) => {
      const box = on.getBoundingClientRect();
      showAt(on, box.left + box.width / 2, box.top + Math.min(box.height / 2, 40));
      on.classList.add("on");
      byId("tip-text").textContent = on.getAttribute("data-tip");
    };
    const press = (event) => {
      if (event.key === "Escape") return hide();
      const svg = event.target instanceof Element ? event.target.closest("svg[tabindex]") : null;
      const all = svg ? marks(svg) : [];
      const at = all.indexOf(current);
      const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
      if (next === undefined || !all.length) return;
      event.preventDefault();
      read(all[Math.max(0, Math.min(all.length - 1, next))]);
    };
    document.addEventListener("pointermove", point);
    document.addEventListener("pointerdown", point);
    document.addEventListener("keydown", press);
    document.addEventListener("focusin", (event) => {
      hide();
      const svg = event.target.closest("svg[tabindex]");
      if (svg && svg.matches(":focus-visible") && marks(svg).length) requestAnimationFrame(() => read(marks(svg)[0])); // after the scroll
    });
    document.addEventListener("focusout", hide);
    document.addEventListener("scroll", hide, { passive: true });
  };
  const theme = () => {
    const button = byId("theme");
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const dark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
    const say = () => {
      button.textContent = dark() ? "Light" : "Dark";
      button.setAttribute("aria-label", dark() ? "Change to light colors" : "Change to dark colors");
      button.setAttribute("aria-pressed", String(dark()));
    };
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
      say();
    });
    system.addEventListener("change", say);
    say();
  };

  for (const id of ["theme", "knobs", "recipe"]) byId(id).hidden = false;
  theme();
  tips();
  drawKeys();
  drawColumns();
  sortable(byId("drivers"));
  draw();
  for (const id of ["temper", "cap"]) byId(id).addEventListener("input", turn);
  byId("reset").addEventListener("click", () => {
    byId("temper").value = byId("cap").value = 0;
    turn();
  });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // a phone hides its address bar
    width = window.innerWidth;
    draw();
  });
})();
