"use strict";
// Plots, table and search of a fairpost page. Text of the user's enters by textContent, or escaped by `esc` in labels of plots.
(() => {
const root = document.documentElement;
const $ = (id) => document.getElementById(id);
const D = JSON.parse($("data").textContent);
root.classList.add("js");

// ---- numbers: the twin of numbers.py -----------------------------------------------------------------------------
const MINUS = "\u2212";
const SUPER = { "-": "\u207b", 0: "\u2070", 1: "\u00b9", 2: "\u00b2", 3: "\u00b3", 4: "\u2074", 5: "\u2075", 6: "\u2076", 7: "\u2077", 8: "\u2078", 9: "\u2079" };
const raised = (k) => String(k).replace(/[-0-9]/g, (c) => SUPER[c]);
function digits(x, place) {
  if (x < 1e-6 || x >= 1e15) {
    const kept = Math.floor(Math.log10(x)) - place, [mantissa, power] = x.toExponential(Math.min(Math.max(kept, 0), 20)).split("e");
    return kept >= 0 ? `${mantissa} \u00d7 10${raised(Number(power))}` : "0";
  }
  const kept = Math.min(Math.max(0, -place), 20);
  const step = place > 0 ? 10 ** place : 1;
  return (place > 0 ? Math.round(x / step) * step : x).toLocaleString("en-US", { minimumFractionDigits: kept, maximumFractionDigits: kept });
}
function directed(x, place, toward) {
  const step = 10 ** place, dust = 2 ** -50 * Math.abs(x / step);
  if (!toward || step === 0) return x;
  return (toward > 0 ? Math.ceil(x / step - dust) : Math.floor(x / step + dust)) * step;
}
function show(unit, value, error, signed, toward) {
  const e = (error || 0) * unit.factor;
  let x = value * unit.factor, body = "0";
  if (x !== 0) {
    const want = unit.whole && Math.abs(x) >= 100 ? 0 : Math.floor(Math.log10(Math.abs(x))) - unit.digits + 1;
    const place = e > 0 ? Math.max(want, Math.floor(Math.log10(e))) : want;
    x = directed(x, place, toward);
    body = x === 0 ? "0" : digits(Math.abs(x), place);
  }
  const some = /[1-9]/.test(body);
  return `${some ? (x < 0 ? MINUS : signed ? "+" : "") : ""}${unit.prefix}${body}${unit.suffix}`;
}
const above = (unit, value) => show(unit, value, 0, false, 1);
const number = (v) => v.toLocaleString("en-US", { maximumFractionDigits: 6 });
const PLAIN = { factor: 1, prefix: "", suffix: "", digits: 3, whole: false };
const PLAIN4 = { factor: 1, prefix: "", suffix: "", digits: 4, whole: false };
const CHANCE = { factor: 100, prefix: "", suffix: "\u00a0%", digits: 3, whole: false };
const bare = (r) => (r.task === "allocation" ? r.unit : PLAIN4);
const rough = (unit) => Object.assign({}, unit, { digits: 2, whole: false });
const esc = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const colour = (k) => css(`--s${k % 8}`);
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star"];

function unpack(text, Kind) {
  if (text === null) return null;
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
}

// ---- plots: shared ------------------------------------------------------------------------------------------------
let printing = false;
const narrow = () => !printing && window.innerWidth < 640;
// The page holds true counts. These buttons and no others: none of them leaves the page, and a future version of the
// drawing library cannot add one. Its upload ("Share chart", "Edit in Chart Studio") is off and has no address.
const BUTTONS = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"];
const CONFIG = {
  responsive: true, displaylogo: false, modeBarButtons: [BUTTONS],
  showSendToCloud: false, showEditInChartStudio: false, plotlyServerURL: "",
};
const webgl = (() => { try { return !!document.createElement("canvas").getContext("webgl"); } catch (_) { return false; } })();

function axis(title, more) {
  return Object.assign({
    title: { text: title, standoff: 8, font: { size: 13 } }, gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false,
    automargin: true, tickfont: { size: 12 },
  }, more);
}
function layout(height, more) {
  const small = narrow();
  return Object.assign({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", height: small ? Math.min(height, 360) : height,
    width: printing ? 670 : undefined, autosize: !printing,
    font: { family: getComputedStyle(document.body).fontFamily, color: css("--ink"), size: 13 },
    margin: { l: small ? 8 : 16, r: small ? 8 : 16, t: 34, b: 16 }, hovermode: "closest", dragmode: small ? false : "zoom",
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 13 } },
    hoverlabel: { bgcolor: css("--wash"), bordercolor: css("--line"), font: { color: css("--ink"), size: 13 }, align: "left" },
  }, more);
}
// Round steps: multiples of 1, 2 or 5 times a power of ten.
function ticks(low, high, most) {
  if (!(high > low)) return [low];
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) out.push(k * step);
  return out;
}
function labelled(unit, values, per, signed) {
  const step = values.length > 1 ? values[1] - values[0] : 0;
  const top = Math.max(...values.map(Math.abs)) * per;
  const [size, word] = unit.whole ? [[1e9, " bn"], [1e6, " m"], [1e3, " k"], [1, ""]].find(([s]) => top >= s) || [1, ""] : [1, ""];
  const shown = Object.assign({}, unit, { factor: unit.factor / size, suffix: word || unit.suffix, digits: 6, whole: false });
  if (!word) shown.suffix = unit.whole || unit.factor === 100 ? unit.suffix : "";
  return values.map((v) => (Math.abs(v) < step * 1e-9 ? "0" : trim(show(shown, v * per, (step * per) / 10, signed), shown.suffix)));
}
function trim(text, suffix) { // no zeros after the last digit that tells steps apart
  const body = suffix ? text.slice(0, -suffix.length) : text;
  return (body.includes(".") && !body.includes("10") ? body.replace(/0+$/, "").replace(/\.$/, "") : body.replace(/(\.\d*?)0+ \u00d7/, "$1 \u00d7").replace(". \u00d7", " \u00d7")) + suffix;
}

const drawn = []; // [element, function that draws it]
function draw(element, make) {
  const go = () => { const { traces, lay } = make(); return Plotly.react(element, traces, lay, CONFIG); };
  go();
  drawn.push([element, go]);
}
const redraw = () => drawn.forEach(([, go]) => go());
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let wide = narrow();
window.addEventListener("resize", () => { if (wide !== narrow()) { wide = narrow(); redraw(); } });
function paper(on) {
  if (printing === on) return;
  printing = on;
  root.classList.toggle("printing", on);
  if (table) table.turn();
  redraw();
}
window.addEventListener("beforeprint", () => paper(true));
window.addEventListener("afterprint", () => paper(false));
window.matchMedia("print").addEventListener("change", (e) => paper(e.matches));

// ---- the audit ----------------------------------------------------------------------------------------------------
let table = null, chosen = 0, together = true;

function prepare() {
  const F8 = Float64Array, F4 = Float32Array, I4 = Int32Array;
  D.of = unpack(D.of, I4); D.times = unpack(D.times, I4); D.start = unpack(D.start, F8);
  D.count = unpack(D.count, F8); D.weight = unpack(D.weight, F8);
  if (D.groups) D.groups.of = unpack(D.groups.of, I4);
  D.results.forEach((r) => {
    r.truth = unpack(r.truth, F8); r.bias = unpack(r.bias, F8); r.error = unpack(r.error, F4); r.half = unpack(r.half, F4);
    r.deviation = unpack(r.deviation, F4); r.zero = unpack(r.zero, F4);
    r.shown = r.money || r.unit; r.per = r.money ? r.budget : 1;
  });
  D.order = Array.from(D.count.keys()).sort((a, b) => D.start[a] - D.start[b]);
}
const series = () => D.results.map((r, k) => [r, k]).filter(([r, k]) => k === chosen || (together && r.task === D.results[chosen].task));

function hover(r, c) {
  const who = D.times[c] > 1 ? `<b>${D.times[c].toLocaleString("en-US")} ${esc(D.noun)}</b>, one is ${esc(D.example[c])}` : `<b>${esc(D.example[c])}</b>`;
  const lines = [who, `${number(D.count[c])} ${esc(D.unit)}${D.weight ? `, weight ${show(PLAIN, D.weight[c])}` : ""}`];
  if (r.task === "allocation") lines.push(`true share ${show(r.unit, r.truth[c])}`);
  lines.push(`${esc(r.name)}: ${r.money ? `${show(r.money, r.bias[c] * r.per, r.error[c] * r.per, true)} (${show(r.unit, r.bias[c], r.error[c], true)})` : show(r.unit, r.bias[c], r.error[c], true)}`);
  if (r.half) lines.push(`simulated: \u00b1 ${above(rough(r.shown), r.half[c] * r.per)} for all at once`);
  return lines.join("<br>");
}
function dots(r, k, cs, x, second, many) {
  const fast = many > 12000 && webgl;
  const t = {
    type: fast ? "scattergl" : "scatter", mode: "markers", name: esc(r.name), x, y: cs.map((c) => r.bias[c]), text: cs.map((c) => hover(r, c)),
    hovertemplate: "%{text}<extra></extra>",
    marker: { color: colour(k), symbol: SYMBOLS[k % 8], size: cs.length > 200 ? 5 : 9, opacity: cs.length > 200 ? 0.75 : 1 },
  };
  if (second) t.yaxis = "y2";
  if (r.half && cs.length <= 500) t.error_y = { type: "data", array: cs.map((c) => r.half[c]), color: colour(k), thickness: 1, width: cs.length > 100 ? 0 : 3 };
  return t;
}
const biasTitle = (r) => r.task === "allocation" ? "expected gain or loss, share of the budget" : `bias in ${esc(D.unit)}`;
function reach(found) { // the range of the biases with some air
  let low = 0, high = 0;
  found.forEach(([r]) => r.bias.forEach((b, c) => {
    const h = r.half && D.count.length <= 500 ? r.half[c] : 0;
    if (b - h < low) low = b - h;
    if (b + h > high) high = b + h;
  }));
  const air = (high - low) * 0.06 || 1;
  return [low - air, high + air];
}
// Counts that span many powers of ten are drawn as log(1 + count), so that 0 keeps its place.
function countScale() {
  const sorted = D.order.map((c) => D.count[c]), top = sorted[sorted.length - 1];
  let seen = 0, middle = 0;
  for (const c of D.order) { seen += D.times[c]; if (seen >= D.n / 2) { middle = D.count[c]; break; } }
  if (!(top > 100 * Math.max(1, middle))) return { f: (v) => v, axis: { rangemode: "tozero" }, note: "" };
  const values = [0];
  for (let p = 1; p <= top; p *= 10) values.push(p);
  const f = (v) => Math.log10(1 + v);
  return { f, axis: { tickvals: values.map(f), ticktext: values.map((v) => v.toLocaleString("en-US")), range: [0, f(top) * 1.04] }, note: " (log scale)" };
}
function sortedPlot() {
  const found = series(), r0 = found[0][0], scale = countScale(), few = D.n <= 60;
  const cs = [], at = [];
  D.order.forEach((c) => { for (let k = 0; k < (few ? D.times[c] : 1); k++) { cs.push(c); at.push(few ? D.start[c] + k + 1 : D.start[c] + (D.times[c] + 1) / 2); } });
  const y = cs.map((c) => scale.f(D.count[c]));
  const base = few
    ? { type: "bar", x: at, y, marker: { color: css("--area") }, width: 0.8 }
    : { type: "scatter", mode: "lines", line: { color: css("--area"), width: 1, shape: "hvh" }, fill: "tozeroy", fillcolor: css("--area"), x: at, y };
  Object.assign(base, { name: "true count", hoverinfo: "skip" });
  const traces = [base, ...found.map(([r, k]) => dots(r, k, cs, at, true, cs.length * found.length))];
  const range = reach(found), marks = moneyTicks(r0, range);
  const names = few && D.n <= 60 ? orderedIds() : null;
  const lay = layout(430, {
    xaxis: axis(names ? "" : `${esc(D.noun)}, from the smallest to the largest count`, names && D.n <= 30
      ? { tickvals: at, ticktext: names.map((t) => esc(t.length > 18 ? t.slice(0, 17) + "\u2026" : t)), tickangle: D.n > 8 || narrow() ? -45 : 0, showgrid: false }
      : { showgrid: false, range: [0, D.n * 1.005 + 0.5], tickformat: ",d" }),
    yaxis: axis(`true count${scale.note}`, Object.assign({ tickformat: ",~r", fixedrange: true }, scale.axis)),
    yaxis2: axis(r0.money ? "expected gain or loss" : biasTitle(r0), {
      overlaying: "y", side: "right", showgrid: false, zeroline: true, zerolinecolor: css("--soft"), zerolinewidth: 1, range,
      tickvals: marks, ticktext: labelled(r0.shown, marks, r0.per, true),
    }),
  });
  return { traces, lay };
}
function orderedIds() {
  return Array.from(D.ids.keys()).sort((a, b) => D.start[D.of[a]] - D.start[D.of[b]]).map((i) => D.ids[i]);
}
// Steps that are round in the unit shown.
const moneyTicks = (r, range) => ticks(range[0] * r.per, range[1] * r.per, 6).map((v) => v / r.per);
// A logarithmic axis has no 0: those at 0 stand left of the dotted line, below the smallest positive value.
function logAxis(values, unit, range) {
  let low = Infinity, high = 0, zeros = false;
  values.forEach((v) => { if (v > 0) { low = Math.min(low, v); high = Math.max(high, v); } else zeros = true; });
  if (low === Infinity) { low = high = 1; }
  const zero = Math.log10(low) - Math.max(0.35, 0.09 * Math.log10(high / low));
  const span = range || [zeros ? zero - 0.25 : Math.log10(low) - 0.2, Math.log10(high) + 0.2];
  const wide = span[1] - span[0], factors = wide > 3 ? [1] : wide > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const vals = [], text = [];
  const gap = wide > 7 && narrow() ? 2 : 1;
  for (let p = Math.floor(span[0]); p <= span[1]; p += 1) {
    if (p % gap) continue;
    factors.forEach((f) => {
      const v = f * 10 ** p;
      if (v >= low * 0.999 * (zeros ? 1 : 0.1) && Math.log10(v) >= span[0] && Math.log10(v) <= span[1]) { vals.push(Math.log10(v)); text.push(v * unit.factor < 1e-4 || v * unit.factor >= 1e7 ? `10${`<sup>${Math.round(Math.log10(v * unit.factor))}</sup>`}${unit.factor === 100 ? " %" : ""}` : `${Number((v * unit.factor).toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 9 })}${unit.factor === 100 ? " %" : ""}`); }
    });
  }
  if (zeros && zero >= span[0]) { vals.unshift(zero); text.unshift("0"); }
  return { at: (v) => (v > 0 ? Math.log10(v) : zero), span, vals, text, divide: zeros ? (zero + Math.log10(low)) / 2 : null };
}
let zoom = null;
function sizePlot() {
  const found = series(), r0 = found[0][0], share = r0.task === "allocation", unit = share ? r0.unit : PLAIN;
  const value = share ? r0.truth : D.count, cs = D.order;
  const x = logAxis(value, unit, zoom && zoom.x), at = cs.map((c) => x.at(value[c]));
  const range = (zoom && zoom.y) || reach(found), marks = ticks(range[0], range[1], 6);
  const traces = found.map(([r, k]) => dots(r, k, cs, at, false, cs.length * found.length));
  const lay = layout(430, {
    xaxis: axis(share ? "true share of the budget" : `true count, ${esc(D.unit)}`, { tickvals: x.vals, ticktext: x.text, range: x.span }),
    yaxis: axis(narrow() && r0.money ? "" : biasTitle(r0), { range, tickvals: marks, ticktext: labelled(r0.unit, marks, 1, true), zeroline: true, zerolinecolor: css("--soft"), zerolinewidth: 1, showticklabels: !(narrow() && r0.money) }),
    shapes: x.divide === null ? [] : [{ type: "line", xref: "x", yref: "paper", x0: x.divide, x1: x.divide, y0: 0, y1: 1, line: { dash: "dot", width: 1, color: css("--soft") } }],
    showlegend: true,
  });
  if (r0.money) { // the same axis again, in money
    traces.push({ x: [x.span[0]], y: [0], yaxis: "y2", type: "scatter", mode: "markers", marker: { opacity: 0 }, showlegend: false, hoverinfo: "skip" });
    const cash = moneyTicks(r0, range);
    lay.yaxis2 = axis("expected gain or loss in money", { overlaying: "y", side: "right", matches: "y", showgrid: false, tickvals: cash, ticktext: labelled(r0.money, cash, r0.budget, true) });
  }
  return { traces, lay };
}
function watchZoom(element) {
  element.on("plotly_relayout", (e) => {
    if (!Object.keys(e).some((k) => /^[xy]axis2?\.(range|autorange)/.test(k))) return;
    const reset = e["xaxis.autorange"] || e["yaxis.autorange"];
    const next = reset ? null : { x: element.layout.xaxis.range.slice(), y: element.layout.yaxis.range.slice() };
    if (JSON.stringify(next) === JSON.stringify(zoom)) return;
    zoom = next;
    const { traces, lay } = sizePlot();
    Plotly.react(element, traces, lay, CONFIG);
  });
}

// ---- the table ----------------------------------------------------------------------------------------------------
function makeTable() {
  const head = document.querySelector("#table thead tr"), body = document.querySelector("#table tbody");
  const state = { key: "effect", down: true, page: 0, rows: [], query: "" };
  const size = () => (printing ? 50 : 25);
  const lower = D.ids.map((t) => t.toLowerCase()), groups = D.groups ? D.groups.names.map((t) => t.toLowerCase()) : null;
  const compareText = new Intl.Collator("en", { numeric: true }).compare;

  function columns() {
    const r = D.results[chosen], c = (i) => D.of[i];
    const list = [{ key: "id", name: "Id", sort: (i) => D.ids[i], cell: (td, i) => { const b = document.createElement("bdi"); b.textContent = D.ids[i]; td.append(b); td.title = D.ids[i]; } }];
    if (D.groups) list.push({ key: "group", name: "Group", left: true, sort: (i) => D.groups.names[D.groups.of[i]], cell: (td, i) => { const b = document.createElement("bdi"); b.textContent = D.groups.names[D.groups.of[i]]; td.append(b); } });
    const column = (key, name, array, format) => list.push({ key, name, sort: (i) => array[c(i)], cell: (td, i) => { td.textContent = format(array[c(i)], c(i)); td.title = String(array[c(i)]); } });
    column("count", "True count", D.count, number);
    if (D.weight) column("weight", "Weight", D.weight, (v) => show(PLAIN, v));
    if (r.money) list.push({ key: "money", name: "Gain or loss", sort: (i) => r.bias[c(i)], cell: (td, i) => { td.textContent = show(r.money, r.bias[c(i)] * r.per, r.error[c(i)] * r.per, true); td.title = String(r.bias[c(i)] * r.per); } });
    list.push({ key: "effect", name: "Effect", bar: true, sort: (i) => Math.abs(r.bias[c(i)]), cell: (td, i) => bar(td, r, r.bias[c(i)]) });
    const unit = bare(r);
    column("bias", unit === r.unit ? "Bias" : `Bias, ${D.unit}`, r.bias, (v, k) => show(unit, v, r.error[k], true));
    column("error", r.simulated ? "Standard error" : "Error bound", r.error, (v) => above(rough(unit), v));
    column("deviation", "Standard deviation", r.deviation, (v) => show(Object.assign({}, unit, { digits: 3 }), v));
    column("zero", "Chance of 0", r.zero, (v) => show(CHANCE, v));
    return list;
  }
  function bar(td, r, b) {
    let top = r.top;
    if (top === undefined) { top = 0; r.bias.forEach((v) => { top = Math.max(top, Math.abs(v)); }); r.top = top; }
    const w = top > 0 ? 50 * Math.abs(b) / top : 0, span = document.createElement("span"), i = document.createElement("i");
    span.className = `bar s${chosen % 8}`; span.setAttribute("aria-hidden", "true");
    i.style.left = `${b < 0 ? 50 - w : 50}%`; i.style.width = `${w}%`;
    if (w > 0) span.append(i);
    td.className = "barcell"; td.append(span);
    const words = document.createElement("span"); words.className = "hidden"; words.textContent = b < 0 ? "loss" : b > 0 ? "gain" : "none";
    td.append(words);
  }
  function header() {
    head.textContent = "";
    columns().forEach((col) => {
      const th = document.createElement("th"), button = document.createElement("button");
      th.scope = "col"; th.dataset.key = col.key; button.type = "button"; button.textContent = col.name;
      if (col.bar) th.className = "barcell";
      if (col.left) th.style.textAlign = "left";
      th.setAttribute("aria-sort", state.key === col.key ? (state.down ? "descending" : "ascending") : "none");
      button.addEventListener("click", () => {
        state.down = state.key === col.key ? !state.down : !["id", "group"].includes(col.key);
        state.key = col.key; state.page = 0; update();
        head.querySelector(`th[data-key="${col.key}"] button`).focus();
      });
      if (printing) th.textContent = col.name; // browsers do not repeat buttons at the head of each sheet
      else th.append(button);
      head.append(th);
    });
  }
  function update() {
    const all = columns(), col = all.find((c) => c.key === state.key) || all.find((c) => c.key === "effect");
    state.key = col.key;
    const q = state.query.trim().toLowerCase();
    let rows = Array.from(D.ids.keys());
    if (q) rows = rows.filter((i) => lower[i].includes(q) || (groups && groups[D.groups.of[i]].includes(q)));
    const keys = rows.map(col.sort), text = typeof keys[0] === "string", index = rows.map((_, k) => k);
    const sign = state.down ? -1 : 1;
    index.sort((a, b) => (sign * (text ? compareText(keys[a], keys[b]) : keys[a] - keys[b])) || rows[a] - rows[b]);
    state.rows = index.map((k) => rows[k]);
    $("matches").textContent = q ? `${rows.length.toLocaleString("en-US")} of ${D.ids.length.toLocaleString("en-US")} match` : `${D.ids.length.toLocaleString("en-US")} ${D.noun}`;
    header(); render();
  }
  function render() {
    const all = columns(), k = size(), from = state.page * k, part = state.rows.slice(from, from + k);
    body.textContent = "";
    part.forEach((i) => {
      const tr = document.createElement("tr");
      all.forEach((col, n) => {
        const td = document.createElement(n ? "td" : "th");
        if (!n) td.scope = "row";
        if (col.left) td.style.textAlign = "left";
        col.cell(td, i); tr.append(td);
      });
      body.append(tr);
    });
    if (!part.length) { const tr = document.createElement("tr"), td = document.createElement("td"); td.colSpan = all.length; td.className = "found-none"; td.textContent = "Nothing matches."; tr.append(td); body.append(tr); }
    const total = state.rows.length;
    $("range").textContent = total ? `${(from + 1).toLocaleString("en-US")} to ${Math.min(from + k, total).toLocaleString("en-US")} of ${total.toLocaleString("en-US")}` : "";
    $("previous").disabled = from === 0; $("next").disabled = from + k >= total;
    $("table-view").textContent = D.results[chosen].name;
  }
  let timer = 0;
  $("search").addEventListener("input", (e) => { clearTimeout(timer); timer = setTimeout(() => { state.query = e.target.value; state.page = 0; update(); }, 80); });
  $("previous").addEventListener("click", () => { state.page -= 1; render(); });
  $("next").addEventListener("click", () => { state.page += 1; render(); });
  return { update, turn: () => { state.page = 0; header(); render(); } };
}

function choose(k) {
  chosen = k; zoom = null;
  document.querySelectorAll(".panel").forEach((p) => { p.hidden = Number(p.dataset.view) !== k; });
  const r = D.results[k], names = series().map(([s]) => s.name).join(", ");
  document.querySelectorAll("figcaption .live").forEach((s) => { s.textContent = `Shown: ${names}.`; });
  if (D.points > D.count.length) document.querySelectorAll("figcaption .live").forEach((s) => { s.textContent += ` ${D.count.length.toLocaleString("en-US")} of ${D.points.toLocaleString("en-US")} distinct points are drawn: the most affected, and others evenly by size.`; });
  table.update();
  return r;
}
function audit() {
  prepare();
  table = makeTable();
  choose(Number(document.querySelector(".chooser input:checked").value));
  setTimeout(() => { // the words can be read before the pictures are drawn
    draw($("plot-sorted"), sortedPlot);
    draw($("plot-size"), sizePlot);
    watchZoom($("plot-size"));
  });
  document.querySelectorAll(".chooser input").forEach((input) => input.addEventListener("change", () => { choose(Number(input.value)); redraw(); }));
  $("together").addEventListener("change", (e) => { together = e.target.checked; choose(chosen); redraw(); });
  document.querySelector(".chooser").addEventListener("submit", (e) => e.preventDefault());
}

// ---- curves: plan and sweep ---------------------------------------------------------------------------------------
function band(x, low, high, c) {
  return { type: "scatter", mode: "lines", x: x.concat(x.slice().reverse()), y: high.concat(low.slice().reverse()), fill: "toself", fillcolor: c, opacity: 0.18, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
}
function curvePlot(q) {
  const traces = [], positive = [];
  q.lines.forEach((line) => {
    const k = line.place, floor = (v) => (v > 0 ? v : null);
    if (line.simulated) traces.push(band(line.x, line.low.map((v, i) => floor(v) || floor(line.value[i]) || line.high[i]), line.high, colour(k)));
    traces.push({ type: "scatter", mode: "lines+markers", name: esc(line.name), x: line.x, y: line.value.map(floor), text: line.text.map(esc), hovertemplate: "%{text}<extra></extra>", line: { color: colour(k), width: 2 }, marker: { color: colour(k), symbol: SYMBOLS[k % 8], size: 7 } });
    line.value.forEach((v) => { if (v > 0) positive.push(v); });
  });
  const shapes = [], notes = [];
  if (q.target !== null) {
    shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: q.target, y1: q.target, line: { dash: "dash", width: 1.5, color: css("--mark") } });
    notes.push({ xref: "paper", x: 0, xanchor: "left", y: Math.log10(q.target), yanchor: "bottom", text: "target", showarrow: false, font: { color: css("--mark"), size: 12 } });
    positive.push(q.target);
  }
  if (q.found.length) traces.push({ type: "scatter", mode: "markers", name: "found", x: q.found.map((f) => f.x), y: q.found.map((f) => f.y), text: q.found.map((f) => esc(f.text)), hovertemplate: "%{text}<extra></extra>", marker: { symbol: "star", size: 16, color: css("--mark"), line: { color: css("--paper"), width: 1 } } });
  const log = positive.length > 0;
  const span = log ? [Math.log10(Math.min(...positive)), Math.log10(Math.max(...positive))] : [0, 1];
  const air = Math.max(0.15, 0.06 * (span[1] - span[0]));
  const lay = layout(380, {
    xaxis: axis(esc(D.x), { type: "log", dtick: 1, exponentformat: "power", minor: { ticks: "outside", dtick: "D1", tickcolor: css("--line") } }),
    yaxis: axis(esc(q.axis), log ? { type: "log", dtick: span[1] - span[0] > 8 ? 2 : 1, exponentformat: "power", range: [span[0] - air, span[1] + air] } : { range: [-1, 1] }),
    shapes, annotations: notes, showlegend: true,
  });
  return { traces, lay };
}
function curves() { D.quantities.forEach((q, k) => draw($(`plot-${k}`), () => curvePlot(q))); }

if (D.page === "audit") audit(); else curves();
})();
