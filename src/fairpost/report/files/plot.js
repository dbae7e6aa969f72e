// Pictures as SVG: axes that may be symmetric-logarithmic, dots, lines, bands, notes; zoom, labels under the pointer, saving.
// No library: what is drawn here has no way to send anything, and every element is ours.

// ---- scales ---------------------------------------------------------------------------------------------------------
// A scale maps values to places and back. Symmetric logarithm: sign(v) log10(1 + |v| / c), linear below c, both signs.
const linear = () => ({ kind: "linear", to: (v) => v, back: (t) => t });
const symlog = (c) => ({ kind: "symlog", c, to: (v) => Math.sign(v) * Math.log10(1 + Math.abs(v) / c), back: (t) => Math.sign(t) * c * (10 ** Math.abs(t) - 1) });
const logarithmic = () => ({ kind: "log", to: (v) => (v > 0 ? Math.log10(v) : NaN), back: (t) => 10 ** t });
// The scale for these values: linear below two decades, else symmetric-logarithmic from the size that one in twenty falls
// short of, but no more than six decades below the largest.
function scaleFor(arrays) {
  let sizes = [];
  arrays.forEach((a) => a.forEach((v) => { if (v !== 0 && Number.isFinite(v)) sizes.push(Math.abs(v)); }));
  if (sizes.length === 0) return linear();
  sizes = Float64Array.from(sizes).sort();
  const top = sizes[sizes.length - 1], low = Math.max(sizes[Math.floor(sizes.length / 20)], top / 1e6);
  return top < 100 * low ? linear() : symlog(10 ** Math.floor(Math.log10(low)));
}
// Round steps: multiples of 1, 2 or 5 times a power of ten.
function steps(low, high, most) {
  if (!(high > low)) return [low];
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) out.push(k === 0 ? 0 : k * step);
  return out;
}
// Values to mark between two places of a scale, about `most` of them: powers of ten, these with 2 and 5, or even steps,
// whichever is the first to give three. So a picture keeps its ticks however far it is zoomed.
function ticksOf(scale, from, to, most) {
  const low = scale.back(from), high = scale.back(to);
  if (scale.kind === "linear") return steps(low, high, most);
  const top = Math.max(Math.abs(low), Math.abs(high)), least = scale.kind === "log" ? low : scale.c;
  const inside = (v) => v >= low - 1e-12 * top && v <= high + 1e-12 * top;
  for (const factors of [[1], [1, 2, 5]]) {
    let found = scale.kind === "log" ? [] : [0];
    for (let k = Math.floor(Math.log10(least) + 1e-9); k <= Math.ceil(Math.log10(top)); k++) {
      factors.forEach((f) => { const v = Number(`${f}e${k}`); if (v >= least * 0.999) { found.push(v); if (scale.kind !== "log") found.push(-v); } });
    }
    found = found.filter(inside).sort((a, b) => a - b);
    if (found.length >= 3) return thinned(scale, found, from, to, most);
  }
  return steps(low, high, most);
}
// Every second or third power of ten, counted from the largest, where all of them would touch; 0 stays.
function thinned(scale, found, from, to, most) {
  const gap = (to - from) / (most * 1.6), kept = [];
  const order = found.slice().sort((a, b) => (a === 0) - (b === 0) || Math.abs(b) - Math.abs(a)).reverse();
  [0, ...order.reverse()].forEach((v) => {
    if (found.includes(v) && !kept.includes(v) && kept.every((w) => Math.abs(scale.to(w) - scale.to(v)) >= gap)) kept.push(v);
  });
  return kept.sort((a, b) => a - b);
}
// One notation per axis: plain numbers, or powers of ten for all of them where plain ones would be too long.
function tickTexts(unit, values, signed) {
  const sizes = values.filter((v) => v !== 0).map((v) => Math.abs(v * unit.factor));
  const low = Math.min(...sizes), high = Math.max(...sizes);
  const round = sizes.every((s) => Math.abs(Math.log10(s) - Math.round(Math.log10(s))) < 1e-9);
  const short = sizes.length === 0 || (low >= 0.99e-5 && high < 1e10);
  const power = short ? 0 : Math.floor(Math.log10(high) + 1e-9);
  const tail = unit.factor === 100 ? "\u00a0%" : "";
  return values.map((v) => {
    if (v === 0) return "0";
    const x = Math.abs(v * unit.factor), sign = v < 0 ? MINUS : signed ? "+" : "";
    const plain = (y) => Number(y.toPrecision(8)).toLocaleString("en-US", { maximumFractionDigits: 12 });
    const body = short ? plain(x) : round ? `10${raised(Math.round(Math.log10(x)))}` : `${plain(x / 10 ** power)} \u00d7 10${raised(power)}`;
    return `${sign}${unit.whole ? unit.prefix : ""}${body}${tail}`;
  });
}

// ---- drawing --------------------------------------------------------------------------------------------------------
const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([k, v]) => element.setAttribute(k, v));
  if (text !== undefined) element.textContent = text;
  return element;
}
const measure = (() => {
  const pen = document.createElement("canvas").getContext("2d");
  return (text, size) => { pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`; return pen.measureText(text).width; };
})();
// One outline per slot of the palette (palette.py has the same order), around (x, y) with radius r.
const OUTLINES = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (x, y, r) => `M${x - r * 0.88} ${y - r * 0.88}h${r * 1.76}v${r * 1.76}h${-r * 1.76}z`,
  (x, y, r) => `M${x} ${y - r * 1.25}l${r * 1.25} ${r * 1.25}l${-r * 1.25} ${r * 1.25}l${-r * 1.25} ${-r * 1.25}z`,
  (x, y, r) => `M${x} ${y - r * 1.2}l${r * 1.15} ${r * 2}h${-r * 2.3}z`,
  (x, y, r) => `M${x - r * 0.4} ${y - r * 1.2}h${r * 0.8}v${r * 0.8}h${r * 0.8}v${r * 0.8}h${-r * 0.8}v${r * 0.8}h${-r * 0.8}v${-r * 0.8}h${-r * 0.8}v${-r * 0.8}h${r * 0.8}z`,
  (x, y, r) => `M${x} ${y - r * 0.5}l${r * 0.7} ${-r * 0.7}l${r * 0.5} ${r * 0.5}l${-r * 0.7} ${r * 0.7}l${r * 0.7} ${r * 0.7}l${-r * 0.5} ${r * 0.5}l${-r * 0.7} ${-r * 0.7}l${-r * 0.7} ${r * 0.7}l${-r * 0.5} ${-r * 0.5}l${r * 0.7} ${-r * 0.7}l${-r * 0.7} ${-r * 0.7}l${r * 0.5} ${-r * 0.5}z`,
  (x, y, r) => `M${x} ${y + r * 1.2}l${r * 1.15} ${-r * 2}h${-r * 2.3}z`,
  (x, y, r) => `M${x - r * 1.15} ${y - r * 0.6}h${r * 2.3}v${r * 1.2}h${-r * 2.3}z`,
];
const STAR = (x, y, r) => { let d = ""; for (let k = 0; k < 10; k++) { const a = -Math.PI / 2 + (k * Math.PI) / 5, s = k % 2 ? r * 0.45 : r; d += `${k ? "L" : "M"}${(x + s * Math.cos(a)).toFixed(1)} ${(y + s * Math.sin(a)).toFixed(1)}`; } return `${d}z`; };
const outline = (slot) => OUTLINES[slot % OUTLINES.length];

// A picture in `host`. `ask()` says what to draw:
// { height, x, y, series, notes, lines, label }: x and y have scale, range [low, high] in values, unit, title, signed;
// series have name, slot, x, y (arrays of values) and perhaps low, high, joined, faint, star, size, tell(i) (lines of text);
// notes are { x, y, text, slot }, lines { at, text } across or { up } along.
class Picture {
  constructor(host, ask) {
    this.host = host; this.ask = ask; this.zoomed = null; this.points = [];
    this.stage = make("div", { class: "stage" });
    this.stage.setAttribute("role", "img");
    ["aria-labelledby", "aria-label"].forEach((k) => { if (host.getAttribute(k)) { this.stage.setAttribute(k, host.getAttribute(k)); host.removeAttribute(k); } });
    this.tip = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    host.append(this.stage, this.tip, this.toolbar());
    this.listen();
    this.width = host.clientWidth;
    this.draw();
    redrawn.push(() => this.draw());
    new ResizeObserver(() => { if (!printing && host.clientWidth !== this.width) { this.width = host.clientWidth; this.draw(); } }).observe(host);
  }
  toolbar() {
    const button = (text, title, act) => { const b = make("button", { type: "button", title, text }); b.addEventListener("click", act); return b; };
    this.reset = button("Whole picture", "Back to the whole picture", () => { this.zoomed = null; this.draw(); });
    this.reset.disabled = true;
    return make("div", { class: "toolbar screen", role: "group", "aria-label": "Picture" },
      button("Zoom in", "Zoom in on the middle; or drag over a part of the picture", () => this.scale(0.6)),
      button("Zoom out", "Zoom out", () => this.scale(1 / 0.6)), this.reset,
      button("Save PNG", "Save the picture to this machine", () => this.png()),
      button("Save SVG", "Save the picture to this machine, as lines", () => save(`${stem()}.svg`, this.source(), "image/svg+xml")));
  }
  // The part of the places shown, [x0, x1, y0, y1].
  scale(by) {
    const [a, b, c, d] = this.shown, mid = [(a + b) / 2, (c + d) / 2], half = [((b - a) / 2) * by, ((d - c) / 2) * by];
    this.zoomed = [mid[0] - half[0], mid[0] + half[0], mid[1] - half[1], mid[1] + half[1]];
    this.draw();
  }
  again() { this.zoomed = null; this.draw(); }
  draw() {
    const spec = this.ask(), small = narrow(), size = small ? 11.5 : 13;
    const width = printing ? 670 : Math.max(this.host.clientWidth, 240), height = small ? Math.min(spec.height, 360) : spec.height;
    const full = ["x", "y"].flatMap((k) => { const r = spec[k].range.map(spec[k].scale.to), air = (r[1] - r[0]) * (k === "x" ? 0.035 : 0.07) || 0.5; return [r[0] - air, r[1] + air]; });
    const at = this.zoomed || full;
    this.shown = at; this.spec = spec; this.reset.disabled = this.zoomed === null;
    const legend = this.legend(spec, width, size);
    const upTicks = ticksOf(spec.y.scale, at[2], at[3], Math.max(3, Math.floor(height / 55)));
    const upTexts = tickTexts(spec.y.unit, upTicks, spec.y.signed);
    const left = Math.min(Math.ceil(Math.max(20, ...upTexts.map((t) => measure(t, size)))) + 14, Math.round(width * 0.4));
    const top = legend.height + 22, bottom = size * 2 + 22, right = 14;
    const frame = { left, top, right: width - right, bottom: height - bottom, width, height };
    const px = (t) => left + ((t - at[0]) / (at[1] - at[0])) * (frame.right - left), py = (t) => frame.bottom - ((t - at[2]) / (at[3] - at[2])) * (frame.bottom - top);
    const sx = spec.x.scale, sy = spec.y.scale;
    const ink = css("--ink"), soft = css("--soft"), grid = css("--grid");
    const out = svg("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": getComputedStyle(document.body).fontFamily.replace(/"/g, "'"), "font-size": size, class: "drawn" });
    const text = (x, y, t, more) => svg("text", Object.assign({ x: x.toFixed(1), y: y.toFixed(1), fill: ink }, more), t);
    const downTicks = ticksOf(sx, at[0], at[1], Math.max(3, Math.floor((frame.right - left) / (small ? 62 : 90))));
    const downTexts = tickTexts(spec.x.unit, downTicks, spec.x.signed);
    const axes = svg("g", { class: "axes" });
    upTicks.forEach((v, k) => { const y = py(sy.to(v)); axes.append(svg("path", { d: `M${left} ${y.toFixed(1)}H${frame.right}`, stroke: v === 0 ? soft : grid, "stroke-width": v === 0 ? 1.2 : 1 }), text(left - 8, y + size * 0.35, upTexts[k], { "text-anchor": "end", class: "ytick" })); });
    downTicks.forEach((v, k) => { const x = px(sx.to(v)); axes.append(svg("path", { d: `M${x.toFixed(1)} ${top}V${frame.bottom}`, stroke: grid }), text(x, frame.bottom + size + 6, downTexts[k], { "text-anchor": "middle", class: "xtick" })); });
    axes.append(svg("path", { d: `M${left} ${top}V${frame.bottom}H${frame.right}`, fill: "none", stroke: css("--line") }));
    axes.append(text(frame.right, height - 6, spec.x.title, { "text-anchor": "end", fill: soft, class: "xtitle" }), text(4, legend.height + 12, spec.y.title, { fill: soft, class: "ytitle" }));
    out.append(legend.group, axes);
    const id = `clip-${Picture.count = (Picture.count || 0) + 1}`, clip = svg("clipPath", { id });
    clip.append(svg("rect", { x: left - 6, y: top - 6, width: frame.right - left + 12, height: frame.bottom - top + 12 }));
    const marks = svg("g", { class: "marks", "clip-path": `url(#${id})` });
    out.append(clip, marks);
    (spec.lines || []).forEach((l) => {
      if (l.up !== undefined) { const x = px(sx.to(l.up)); marks.append(svg("path", { d: `M${x.toFixed(1)} ${top}V${frame.bottom}`, stroke: soft, "stroke-dasharray": "2 4" })); return; }
      const y = py(sy.to(l.at));
      marks.append(svg("path", { d: `M${left} ${y.toFixed(1)}H${frame.right}`, stroke: css("--mark"), "stroke-width": 1.5, "stroke-dasharray": "6 4", class: "limit" }), text(left + 6, y - 5, l.text, { fill: css("--mark") }));
    });
    this.points = [];
    spec.series.forEach((s) => this.one(marks, s, px, py, sx, sy, frame));
    (spec.notes || []).forEach((n) => this.note(out, n, px(sx.to(n.x)), py(sy.to(n.y)), frame, size));
    this.ring = svg("path", { fill: "none", stroke: ink, "stroke-width": 2, d: "" });
    out.append(this.ring);
    this.frame = Object.assign(frame, { px, py });
    this.stage.replaceChildren(out);
    this.tip.hidden = true;
  }
  legend(spec, width, size) {
    const group = svg("g", { class: "legend" });
    let x = 4, y = size;
    spec.series.filter((s) => s.name).forEach((s) => {
      const wide = measure(s.name, size) + 34;
      if (x + wide > width && x > 4) { x = 4; y += size * 1.55; }
      const mark = s.star ? STAR(x + 8, y - size * 0.35, 7) : outline(s.slot)(x + 8, y - size * 0.35, 5);
      group.append(svg("path", { d: mark, fill: s.star ? css("--mark") : colour(s.slot) }), svg("text", { x: x + 19, y, fill: css("--ink") }, s.name));
      x += wide;
    });
    return { group, height: group.childNodes.length ? y + 6 : 4 };
  }
  one(marks, s, px, py, sx, sy, frame) {
    const n = s.x.length, c = s.star ? css("--mark") : colour(s.slot), r = s.size || (n > 2000 ? 2.4 : n > 200 ? 3 : 5);
    const group = svg("g", { class: "series", opacity: s.faint ? 0.5 : 1 }), seen = new Set();
    const draw = s.star ? STAR : outline(s.slot);
    let d = "", bars = "", line = "", pen = "M", band = null;
    if (s.band && s.low) band = [[], []];
    for (let i = 0; i < n; i++) {
      const tx = sx.to(s.x[i]), ty = sy.to(s.y[i]);
      if (!Number.isFinite(tx) || !Number.isFinite(ty)) { pen = "M"; continue; }
      const x = Math.round(px(tx) * 2) / 2, y = Math.round(py(ty) * 2) / 2;
      if (s.joined) { line += `${pen}${x} ${y}`; pen = "L"; }
      if (band) { const lowest = sy.to(s.low[i]); band[0].push(`${x} ${py(sy.to(s.high[i])).toFixed(1)}`); band[1].push(`${x} ${(Number.isFinite(lowest) ? py(lowest) : frame.bottom).toFixed(1)}`); }
      if (x < frame.left - 6 || x > frame.right + 6 || y < frame.top - 6 || y > frame.bottom + 6) continue;
      this.points.push([x, y, s, i]);
      if (!s.band && s.low && n <= 500) bars += `M${x} ${py(sy.to(s.low[i])).toFixed(1)}V${py(sy.to(s.high[i])).toFixed(1)}`;
      const key = x * 16384 + y;
      if (seen.has(key)) continue; // dots on the same half pixel are one dot
      seen.add(key);
      d += draw(x, y, r);
    }
    if (band && band[0].length) group.append(svg("path", { d: `M${band[0].join("L")}L${band[1].reverse().join("L")}z`, fill: c, opacity: 0.18, class: "band" }));
    if (bars) group.append(svg("path", { d: bars, stroke: c, fill: "none", class: "bars" }));
    if (line) group.append(svg("path", { d: line, stroke: c, fill: "none", "stroke-width": 2 }));
    if (d) group.append(svg("path", { d, fill: c, "fill-opacity": n > 200 ? 0.8 : 1, class: "dots" }));
    marks.append(group);
  }
  note(out, n, x, y, frame, size) {
    if (!Number.isFinite(x) || !Number.isFinite(y) || x < frame.left || x > frame.right || y < frame.top || y > frame.bottom) return;
    const wide = measure(n.text, size), before = x + 12 + wide > frame.right;
    const start = before ? Math.max(frame.left + 2, x - 12 - wide) : x + 12, high = Math.min(frame.bottom - 6, Math.max(frame.top + size, y + (n.below ? size * 1.6 : -size * 0.7)));
    out.append(svg("path", { d: `M${x} ${y}L${before ? x - 10 : x + 10} ${high - size * 0.35}`, stroke: css("--soft") }),
      svg("text", { x: start.toFixed(1), y: high.toFixed(1), fill: css("--ink"), stroke: css("--paper"), "stroke-width": 4, "paint-order": "stroke", "stroke-linejoin": "round", class: "pointed" }, n.text));
  }
  // ---- the pointer
  listen() {
    const place = (e) => { const box = this.stage.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
    let start = null, veil = null;
    this.stage.addEventListener("pointerdown", (e) => { if (e.pointerType === "mouse" && e.button === 0) { start = place(e); e.preventDefault(); } });
    this.stage.addEventListener("pointermove", (e) => {
      const [x, y] = place(e);
      if (!start) { this.point(x, y); return; }
      if (!veil) { veil = svg("rect", { fill: css("--ink"), opacity: 0.12 }); this.stage.firstChild.append(veil); }
      Object.entries({ x: Math.min(x, start[0]), y: Math.min(y, start[1]), width: Math.abs(x - start[0]), height: Math.abs(y - start[1]) }).forEach(([k, v]) => veil.setAttribute(k, v));
    });
    window.addEventListener("pointerup", (e) => {
      if (!start) return;
      const [x, y] = place(e), from = start;
      start = null;
      if (veil) { veil.remove(); veil = null; }
      if (Math.abs(x - from[0]) < 8 || Math.abs(y - from[1]) < 8) return;
      const f = this.frame, [a, b, c, d] = this.shown;
      const tx = (v) => a + ((v - f.left) / (f.right - f.left)) * (b - a), ty = (v) => c + ((f.bottom - v) / (f.bottom - f.top)) * (d - c);
      this.zoomed = [tx(Math.min(x, from[0])), tx(Math.max(x, from[0])), ty(Math.max(y, from[1])), ty(Math.min(y, from[1]))];
      this.draw();
    });
    this.stage.addEventListener("pointerleave", () => this.point(-1e6, 0));
    this.stage.addEventListener("dblclick", () => this.again());
    this.stage.addEventListener("click", () => { if (this.near && this.near[2].pick) this.near[2].pick(this.near[3]); });
  }
  point(x, y) {
    let best = 24 * 24, near = null;
    this.points.forEach((p) => { const q = (p[0] - x) ** 2 + (p[1] - y) ** 2; if (q <= best && !(p[2].faint && q > best * 0.8)) { best = q; near = p; } });
    this.near = near;
    if (!near) { this.tip.hidden = true; this.ring.setAttribute("d", ""); return; }
    this.ring.setAttribute("d", OUTLINES[0](near[0], near[1], 7));
    this.tip.replaceChildren(...near[2].tell(near[3]).map((t, k) => make(k ? "span" : "b", { text: t })));
    this.tip.hidden = false;
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(near[0] + 14, this.frame.width - wide - 4))}px`;
    this.tip.style.top = `${near[1] + 14 + this.stage.offsetTop}px`;
  }
  // ---- saving
  source() { return new XMLSerializer().serializeToString(this.stage.firstChild); }
  png() {
    const image = new Image(), f = this.frame, twice = 2;
    image.onload = () => {
      const sheet = document.createElement("canvas");
      sheet.width = f.width * twice; sheet.height = f.height * twice;
      const pen = sheet.getContext("2d");
      pen.fillStyle = css("--paper"); pen.fillRect(0, 0, sheet.width, sheet.height);
      pen.drawImage(image, 0, 0, sheet.width, sheet.height);
      sheet.toBlob((blob) => save(`${stem()}.png`, blob));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(this.source())}`;
  }
}
