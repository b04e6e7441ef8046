// Density ratios of two clouds of points in the plane: r = p / q, p is the target, q the source.
// Functions of their arguments only. interactive.js draws what they return.
"use strict";

const TwoClouds = (() => {
  const N = 400; // points of each cloud
  const PENALTY = 1; // of squared coefficients, as in scikit-learn with C = 1

  // From src/flowratio/diagnostics/thresholds.py and weights.py. A test compares them.
  const THRESHOLDS = {
    small_ess: 20, fewest_ess: 10, headroom: 3.5, headroom_grave: 2, beyond: 0.01, beyond_grave: 0.25, absent: 0.5,
    outside: 0.15, outside_grave: 0.4, far: 0.5, heavy_k_hat: 1, inflation: 2,
    difference: 0.1, difference_grave: 0.5, stability: 0.1, stability_grave: 2,
  };
  const LARGEST_K_HAT = Math.min(0.7, 1 - 1 / Math.log10(N));
  const CHANCE = 3.98; // standard errors beyond which a difference of two columns is not chance

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const mean = (values) => sum(values) / values.length;
  const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  const smallest = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);

  function logSumExp(values) {
    const top = largest(values);
    return top + Math.log(sum(values.map((value) => Math.exp(value - top))));
  }
  const logAddExp = (a, b) => Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));
  const logMeanExp = (values) => logSumExp(values) - Math.log(values.length);

  // ---- points and true densities

  function uniform(seed) { // the generator mulberry32
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  function noise(seed) { // N standard Gaussian points, by Box and Muller
    const next = uniform(seed);
    return Array.from({ length: N }, () => {
      const radius = Math.sqrt(-2 * Math.log(1 - next())), angle = 2 * Math.PI * next();
      return [radius * Math.cos(angle), radius * Math.sin(angle)];
    });
  }

  // A scene has clouds p and q, {x, y, s, share}, and a group {x, y, s}, which has this share of each cloud.
  function points(scene, name, standard) {
    const cloud = scene[name], nInGroup = Math.round(cloud.share * N);
    return standard.map(([u, v], i) => {
      const part = i < nInGroup ? scene.group : cloud;
      return [part.x + part.s * u, part.y + part.s * v];
    });
  }

  function logGaussian([x, y], { x: a, y: b, s }) {
    return -((x - a) ** 2 + (y - b) ** 2) / (2 * s * s) - 2 * Math.log(s) - Math.log(2 * Math.PI);
  }

  function logDensity(scene, name, point) {
    const cloud = scene[name], main = logGaussian(point, cloud);
    if (!cloud.share) return main;
    return logAddExp(Math.log(1 - cloud.share) + main, Math.log(cloud.share) + logGaussian(point, scene.group));
  }

  const trueLogRatio = (scene) => (point) => logDensity(scene, "p", point) - logDensity(scene, "q", point);

  function trueKL(scene) {
    const { p, q } = scene;
    if (p.share || q.share) return integratedKL(scene);
    const distance = (p.x - q.x) ** 2 + (p.y - q.y) ** 2;
    return 2 * Math.log(q.s / p.s) - 1 + (p.s / q.s) ** 2 + distance / (2 * q.s * q.s);
  }

  function integratedKL(scene) { // of mixtures there is no closed form: 160 × 160 cells, 6 deviations on each side
    const parts = [scene.p, scene.group], cells = 160;
    const low = ["x", "y"].map((axis) => smallest(parts.map((part) => part[axis] - 6 * part.s)));
    const high = ["x", "y"].map((axis) => largest(parts.map((part) => part[axis] + 6 * part.s)));
    const step = [0, 1].map((k) => (high[k] - low[k]) / cells);
    let total = 0;
    for (let i = 0; i < cells; i++) {
      for (let j = 0; j < cells; j++) {
        const point = [low[0] + (i + 0.5) * step[0], low[1] + (j + 0.5) * step[1]];
        const logP = logDensity(scene, "p", point);
        total += Math.exp(logP) * (logP - logDensity(scene, "q", point));
      }
    }
    return total * step[0] * step[1];
  }

  // ---- the estimate: logistic regression by Newton's method

  function featureMap(P, Q, isQuadratic) {
    const rows = [...P, ...Q];
    const center = [0, 1].map((k) => mean(rows.map((row) => row[k])));
    const scale = [0, 1].map((k) => Math.sqrt(mean(rows.map((row) => (row[k] - center[k]) ** 2))));
    return (row) => {
      const u = (row[0] - center[0]) / scale[0], v = (row[1] - center[1]) / scale[1];
      return isQuadratic ? [1, u, v, u * u, u * v, v * v] : [1, u, v];
    };
  }

  const dot = (a, b) => { let total = 0; for (let k = 0; k < a.length; k++) total += a[k] * b[k]; return total; };
  const softplus = (t) => Math.max(t, 0) + Math.log1p(Math.exp(-Math.abs(t)));

  function loss(beta, features, labels) {
    const penalty = (PENALTY / 2) * sum(beta.slice(1).map((value) => value * value));
    return penalty + sum(features.map((f, i) => { const t = dot(f, beta); return softplus(t) - labels[i] * t; }));
  }

  function newtonStep(beta, features, labels) {
    const d = beta.length;
    const gradient = beta.map((value, k) => (k ? PENALTY * value : 0));
    const hessian = beta.map((_, k) => beta.map((__, l) => (k === l && k ? PENALTY : 0)));
    features.forEach((f, i) => {
      const probability = 1 / (1 + Math.exp(-dot(f, beta))), curvature = probability * (1 - probability);
      for (let k = 0; k < d; k++) {
        gradient[k] += (probability - labels[i]) * f[k];
        for (let l = 0; l < d; l++) hessian[k][l] += curvature * f[k] * f[l];
      }
    });
    hessian[0][0] += 1e-12; // all probabilities can be 0 or 1 up to rounding
    return { step: solve(hessian, gradient), size: largest(gradient.map(Math.abs)) };
  }

  function solve(matrix, values) { // by elimination: the matrix is positive definite, so the order does not matter
    const A = matrix.map((row, k) => [...row, values[k]]), d = values.length;
    for (let k = 0; k < d; k++) {
      for (let i = k + 1; i < d; i++) {
        const factor = A[i][k] / A[k][k];
        for (let j = k; j <= d; j++) A[i][j] -= factor * A[k][j];
      }
    }
    const x = new Array(d).fill(0);
    for (let k = d - 1; k >= 0; k--) x[k] = (A[k][d] - dot(A[k].slice(0, d), x)) / A[k][k];
    return x;
  }

  function fit(P, Q, isQuadratic) { // log r = log odds minus log prior odds
    const map = featureMap(P, Q, isQuadratic), rows = [...P, ...Q];
    const features = rows.map(map), labels = rows.map((_, i) => (i < P.length ? 1 : 0));
    let beta = new Array(features[0].length).fill(0), current = loss(beta, features, labels);
    for (let k = 0; k < 50; k++) {
      const { step, size } = newtonStep(beta, features, labels);
      if (size < 1e-9) break;
      let length = 1, next, value;
      do {
        next = beta.map((b, j) => b - length * step[j]);
        value = loss(next, features, labels);
        length /= 2;
      } while (!(value <= current) && length > 1e-6);
      if (!(value <= current)) break;
      [beta, current] = [next, value];
    }
    const prior = Math.log(P.length / Q.length);
    return (point) => dot(map(point), beta) - prior;
  }

  // ---- numbers, from log r on the points of p and of q

  function shares(logR) { // weights with sum 1
    const total = logSumExp(logR);
    return logR.map((value) => Math.exp(value - total));
  }

  function weightedMean(rows, share) {
    return [0, 1].map((k) => sum(rows.map((row, i) => share[i] * row[k])));
  }

  function numbers(P, Q, logP, logQ) {
    const w = shares(logQ), ess = 1 / dot(w, w);
    const secondMoment = Math.min(0, Math.log(ess / N), -logMeanExp(logP)); // of r, from q and from p
    return {
      ess,
      largestWeight: largest(w) * Q.length,
      kl: mean(logP) - logMeanExp(logQ),
      meanWeighted: weightedMean(Q, w),
      beyond: mean(logP.map((value) => (value > Math.log(Q.length) ? 1 : 0))),
      inflation: Math.sqrt(ess / Math.max(1, N * Math.exp(secondMoment))),
      kHat: paretoShape(logQ),
      balance: balance(P, Q, w, Math.sqrt(ess / Math.max(1, N * Math.exp(secondMoment)))),
    };
  }

  function moments(rows, share, k) {
    const center = sum(rows.map((row, i) => share[i] * row[k]));
    const squares = rows.map((row) => (row[k] - center) ** 2);
    const rest = Math.max(1 - dot(share, share), 2.2e-16);
    return { center, variance: dot(share, squares), error: Math.sqrt(sum(squares.map((s, i) => share[i] ** 2 * s)) / rest) };
  }

  function balance(P, Q, w, inflation) { // standardized mean differences after weighting
    const equal = new Array(N).fill(1 / N);
    return [0, 1].map((k) => {
      const p = moments(P, equal, k), q = moments(Q, equal, k), weighted = moments(Q, w, k);
      const scale = Math.sqrt((p.variance + q.variance) / 2);
      const after = (p.center - weighted.center) / scale;
      return { after, error: Math.hypot(p.error, inflation * weighted.error) / scale };
    });
  }

  function paretoShape(logW) { // k̂ by Zhang and Stephens (2009), with the prior of Vehtari et al. (2024)
    const sorted = [...logW].sort((a, b) => a - b), top = sorted[sorted.length - 1];
    const nTail = Math.floor(Math.min(logW.length / 5, 3 * Math.sqrt(logW.length)));
    const start = sorted[sorted.length - nTail - 1];
    const excess = sorted.slice(-nTail).map((value) => Math.exp(value - top) - Math.exp(start - top));
    if (excess[0] < 1e-300) return Infinity;
    const m = excess.length, nGrid = 30 + Math.floor(Math.sqrt(m)), quartile = excess[Math.floor(m / 4 + 0.5) - 1];
    const shape = (theta) => mean(excess.map((x) => Math.log1p(-theta * x)));
    const grid = Array.from({ length: nGrid }, (_, i) => i + 0.5)
      .map((i) => 1 / excess[m - 1] + (1 - Math.sqrt(nGrid / i)) / (3 * quartile));
    const posterior = shares(grid.map((theta) => m * (Math.log(-theta / shape(theta)) - shape(theta) - 1)));
    return (m * shape(dot(posterior, grid)) + 5) / (m + 10);
  }

  function outsideRange(P, Q) { // share of p outside the range of q, and points of p far outside, by the worse column
    const parts = [0, 1].map((k) => {
      const values = Q.map((row) => row[k]), low = smallest(values), high = largest(values);
      const reach = THRESHOLDS.far * (high - low);
      const count = (room) => P.filter((row) => row[k] < low - room || row[k] > high + room).length;
      return { outside: count(0) / P.length, nFar: count(reach) };
    });
    return { outside: largest(parts.map((part) => part.outside)), nFar: largest(parts.map((part) => part.nFar)) };
  }

  const errorOf = (estimate, truth) => Math.sqrt(mean(estimate.map((value, i) => (value - truth[i]) ** 2)));

  // ---- the verdict

  const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

  const counted = (n) => (n === 1 ? "1 point of p lies" : `${n} points of p lie`);

  function findings(of, range, error) { // of the estimate: words, and whether the weights must not be used
    return [...overlap(of), ...outside(range), ...imbalance(of), ...wrongForm(error)];
  }

  function overlap(of) {
    const T = THRESHOLDS, problems = [], headroom = Math.log(N) - of.kl;
    const add = (grave, words) => problems.push({ grave, words });
    if (of.beyond > T.absent || headroom <= 0) {
      add(true, "p and q do not overlap. No weights can turn points of q into points of p.");
      return problems;
    }
    if (of.ess <= T.small_ess) {
      add(of.ess <= T.fewest_ess, `The effective sample size is ${of.ess.toFixed(0)} of ${N}. Few points of q have most of the weight.`);
    }
    if (headroom < T.headroom) {
      add(headroom < T.headroom_grave, `KL is ${of.kl.toFixed(1)} nats. ${N} points of q are too few for more than ${(Math.log(N) - T.headroom).toFixed(1)} nats.`);
    }
    if (of.beyond > T.beyond) {
      add(of.beyond > T.beyond_grave, `${percent(of.beyond)} of the points of p lie where fewer than one point of q is expected.`);
    }
    if (of.kHat === Infinity) {
      if (of.ess <= N / 2) add(false, "Too few points of q have distinct weights.");
    } else if (of.kHat > LARGEST_K_HAT) {
      add(of.kHat > T.heavy_k_hat && of.ess <= N / 2, `A few weights are very large. Pareto k̂ is ${of.kHat.toFixed(2)} (${LARGEST_K_HAT.toFixed(2)} or less is good).`);
    }
    if (of.inflation > T.inflation) add(false, "The largest ratios on points of p are larger than those on points of q.");
    return problems;
  }

  function outside(range) {
    const T = THRESHOLDS;
    if (range.outside > T.outside + 6 / (N + 1)) {
      return [{ grave: range.outside > T.outside_grave, words: `${percent(range.outside)} of the points of p lie outside the range of q.` }];
    }
    return range.nFar ? [{ grave: false, words: `${counted(range.nFar)} far outside the range of q. There log r is extrapolated.` }] : [];
  }

  function imbalance(of) {
    const T = THRESHOLDS;
    const sizes = of.balance.filter(({ after, error }) => Math.abs(after) > CHANCE * error).map(({ after }) => Math.abs(after));
    const size = largest([0, ...sizes]);
    if (of.ess < T.fewest_ess || size <= T.difference) return [];
    const words = `After weighting, the mean of q still differs from the mean of p by ${size.toFixed(2)} standard deviations.`;
    return [{ grave: size > T.difference_grave, words }];
  }

  function wrongForm(error) { // root mean square error of log r on points of p: here the true ratio is known
    const T = THRESHOLDS;
    if (error ** 2 <= T.stability) return [];
    const words = `The estimated log r is wrong by ${error.toFixed(2)} nats on points of p (${Math.sqrt(T.stability).toFixed(2)} or less is good).`;
    return [{ grave: error ** 2 > T.stability_grave, words }];
  }

  function verdict(list) {
    const grave = list.find((finding) => finding.grave);
    if (grave) return { verdict: "do not use", reason: grave.words };
    if (list.length) return { verdict: "use with care", reason: list[0].words };
    return { verdict: "reliable", reason: "The points of q cover those of p, and the estimate is close to the true ratio." };
  }

  // ---- all of it

  function evaluate(scene, standard, isQuadratic) {
    const P = points(scene, "p", standard.p), Q = points(scene, "q", standard.q);
    const logRatio = fit(P, Q, isQuadratic), truth = trueLogRatio(scene);
    const logR = { p: P.map(logRatio), q: Q.map(logRatio) }, trueLogR = { p: P.map(truth), q: Q.map(truth) };
    const estimate = numbers(P, Q, logR.p, logR.q), exact = numbers(P, Q, trueLogR.p, trueLogR.q);
    const list = findings(estimate, outsideRange(P, Q), errorOf(logR.p, trueLogR.p));
    return {
      points: { p: P, q: Q }, logR, trueLogR, logRatio, truth, estimate,
      exact: { ...exact, kl: trueKL(scene) },
      error: errorOf([...logR.p, ...logR.q], [...trueLogR.p, ...trueLogR.q]),
      means: { p: [0, 1].map((k) => mean(P.map((row) => row[k]))), q: [0, 1].map((k) => mean(Q.map((row) => row[k]))) },
      findings: list, ...verdict(list),
    };
  }

  return { N, THRESHOLDS, LARGEST_K_HAT, CHANCE, noise, evaluate, percent };
})();
