// The page of an audit: one picture of all biases, a table to search, one entity in detail, groups, a map.
// `D` is the payload (payload.py); `state` is what the reader has chosen.
const state = { rule: 0, unit: "", together: true, group: null, picked: null };
let D = null, picture = null, rows = null, atlas = null;

function prepare(data) {
  const F8 = Float64Array, F4 = Float32Array, I4 = Int32Array;
  D = data;
  D.of = unpack(D.of, I4); D.times = unpack(D.times, I4); D.count = unpack(D.count, F8); D.weight = unpack(D.weight, F8);
  if (D.groups) D.groups.of = unpack(D.groups.of, I4);
  D.results.forEach((r) => {
    r.truth = unpack(r.truth, F8); r.bias = unpack(r.bias, F8); r.error = unpack(r.error, F4); r.half = unpack(r.half, F4);
    r.deviation = unpack(r.deviation, F4); r.zero = unpack(r.zero, F4);
    r.shown = r.money || r.unit; r.per = r.money ? r.budget : 1;
    r.bare = r.task === "allocation" || r.about === "decision" ? r.unit : PLAIN4;
    // relative to what is due; nothing due: no percentage
    r.relative = r.bias.map((b, c) => (b === 0 ? 0 : r.truth[c] > 0 ? b / r.truth[c] : NaN));
    r.top = r.bias.reduce((m, b) => Math.max(m, Math.abs(b)), 0);
  });
  D.order = Array.from(D.count.keys()).sort((a, b) => D.count[a] - D.count[b]);
}
const RELATIVE = { factor: 100, prefix: "", suffix: "\u00a0%", digits: 3, whole: false };
const called = (i) => (D.names ? D.names[i] : D.ids[i]);
// The ways to measure a bias: in money, in percent of what is due, in the unit of the rule.
function measures(r) {
  const plain = { key: "plain", of: (c) => r.bias[c], half: (c) => r.half[c], unit: r.unit };
  if (r.about === "decision") return [Object.assign(plain, { name: "chance", title: "change of the chance to be let in" })];
  const counts = r.task === "release", due = counts ? "the true count" : "what is due";
  const all = [
    { key: "relative", name: `% of ${due}`, of: (c) => r.relative[c], half: (c) => (r.truth[c] > 0 ? r.half[c] / r.truth[c] : NaN), unit: RELATIVE, title: `expected gain or loss, in % of ${due}` },
    Object.assign(plain, { name: counts ? D.unit : "share of the budget", title: counts ? `expected gain or loss, in ${D.unit}` : "expected gain or loss, share of the budget" }),
  ];
  if (r.money) all.unshift({ key: "money", name: "money", of: (c) => r.bias[c] * r.per, half: (c) => r.half[c] * r.per, unit: r.money, title: `expected gain or loss, in ${r.money.prefix || "money"}` });
  return all;
}
const measureOf = (r) => { const all = measures(r); return all.find((m) => m.key === state.unit) || (r.money ? all[0] : all[all.length - 1]); };
const shownRules = () => D.results.map((r, k) => [r, k]).filter(([r, k]) => k === state.rule || (state.together && r.measured === D.results[state.rule].measured));

function told(r, c) {
  const lines = [D.times[c] > 1 ? `${many(D.times[c])} ${D.noun}, one is ${D.example[c]}` : D.example[c]];
  lines.push(`${number(D.count[c])} ${D.unit}${D.weight ? `, weight ${show(PLAIN, D.weight[c])}` : ""}`);
  if (r.money) lines.push(`due ${show(r.money, r.truth[c] * r.per)}`);
  lines.push(`${r.name}: ${amounts(r, c).join(" = ")}`);
  if (r.half) lines.push(`\u00b1 ${above(rough(r.shown), r.half[c] * r.per)} for all at once`);
  return lines;
}
// A bias in money (or its unit) and in percent of what is due.
function amounts(r, c) {
  const out = [show(r.shown, r.bias[c] * r.per, r.error[c] * r.per, true)];
  if (r.about !== "decision" && Number.isFinite(r.relative[c]) && r.truth[c] > 0) out.push(`${show(RELATIVE, r.relative[c], r.error[c] / r.truth[c], true)} of what is due`);
  return out;
}
function auditPicture() {
  const found = shownRules(), r0 = D.results[state.rule], m0 = measureOf(r0), arrays = [];
  const series = [], notes = [];
  found.sort(([, a], [, b]) => (a === state.rule) - (b === state.rule)); // the chosen one on top
  found.forEach(([r, k]) => {
    const m = measures(r).find((one) => one.key === m0.key) || measureOf(r), cs = D.order.filter((c) => Number.isFinite(m.of(c)));
    const x = cs.map((c) => D.count[c]), y = cs.map(m.of), ends = r.half && cs.length <= 500 ? { low: cs.map((c) => m.of(c) - m.half(c)), high: cs.map((c) => m.of(c) + m.half(c)) } : {};
    arrays.push(y);
    const base = { slot: r.place, tell: (i) => told(r, cs[i]), pick: (i) => pickClass(cs[i]) };
    const inside = state.group === null ? null : groupClasses(state.group);
    series.push(Object.assign({ name: r.name, x, y, faint: (found.length > 1 && k !== state.rule) || inside !== null }, ends, base));
    if (inside) { const some = cs.map((c, i) => i).filter((i) => inside.has(cs[i])); series.push(Object.assign({}, base, { name: "", x: some.map((i) => x[i]), y: some.map((i) => y[i]), tell: (i) => told(r, cs[some[i]]), pick: (i) => pickClass(cs[some[i]]), faint: k !== state.rule && found.length > 1 })); }
    if (k === state.rule) notes.push(...endNotes(r, m, cs));
  });
  if (state.picked !== null) { const c = D.of[state.picked]; found.forEach(([r]) => { const m = measures(r).find((one) => one.key === m0.key) || measureOf(r); if (Number.isFinite(m.of(c))) series.push({ name: "", slot: r.place, star: true, size: 8, x: [D.count[c]], y: [m.of(c)], tell: () => told(r, c) }); }); }
  const flat = arrays.flat(), low = Math.min(0, ...minmax(flat)), high = Math.max(0, ...minmax(flat)), counts = minmax(D.order.map((c) => D.count[c]));
  const x = counts[1] > 100 * Math.max(counts[0], 1) ? symlog(1) : linear();
  return {
    height: 430, series, notes,
    x: { scale: x, range: counts, unit: PLAIN, title: `true count, ${D.unit}` },
    y: { scale: scaleFor(arrays), range: low < high ? [low, high] : [-1, 1], unit: m0.unit, title: m0.title, signed: true },
    lines: limitLines(m0),
  };
}
const minmax = (values) => { let low = Infinity, high = -Infinity; for (const v of values) { if (v < low) low = v; if (v > high) high = v; } return [low, high]; };
// The targets that this picture can show: a loss in its own unit.
function limitLines(m) {
  return (D.limits || []).filter((l) => l.key === m.key).map((l) => ({ at: -l.value, text: l.text }));
}
function endNotes(r, m, cs) {
  if (cs.length < 2) return [];
  let low = cs[0], high = cs[0];
  cs.forEach((c) => { if (m.of(c) < m.of(low)) low = c; if (m.of(c) > m.of(high)) high = c; });
  const said = (c, below) => ({ x: D.count[c], y: m.of(c), below, slot: r.place, text: `${D.times[c] > 1 ? `${many(D.times[c])} ${D.noun}` : cut(D.example[c])} ${show(m.unit, m.of(c), 0, true)}` });
  const out = [];
  if (m.of(low) < 0) out.push(said(low, false));
  if (m.of(high) > 0) out.push(said(high, false));
  return out;
}
const cut = (text) => (text.length > 32 ? `${text.slice(0, 31)}\u2026` : text);
const groupClasses = (g) => { const set = new Set(); D.ids.forEach((_, i) => { if (D.groups.of[i] === g) set.add(D.of[i]); }); return set; };

// Alpha against the typical error: the rules as points, the threshold's way as a line.
function tradeoffPicture() {
  const t = D.tradeoff, all = t.named.concat(t.path), xs = all.map((p) => p.x), ys = all.map((p) => p.y).filter((v) => v > 0);
  const series = t.named.map((p) => ({ name: p.name, slot: p.place, x: [p.x], y: [p.y], size: 7, tell: () => p.text }));
  if (t.path.length) series.unshift({ name: `${t.rule}, by threshold`, slot: 6, x: t.path.map((p) => p.x), y: t.path.map((p) => p.y), joined: true, size: 2.5, tell: (i) => t.path[i].text });
  const wide = (values) => { const [a, b] = minmax(values); return b > a ? [a, b] : [a * 0.9, a * 1.1 || 1]; };
  const logs = (values) => values.length === all.length && minmax(values)[1] > 20 * minmax(values)[0];
  return {
    height: 360, series,
    x: { scale: logs(xs) ? logarithmic() : linear(), range: wide(xs), unit: t.unit, title: `typical error, ${t.axis}` },
    y: { scale: logs(ys) ? logarithmic() : linear(), range: wide(logs(ys) ? ys : all.map((p) => p.y)), unit: t.unit, title: `alpha, ${t.axis}` },
  };
}

// ---- the table --------------------------------------------------------------------------------------------------------
function tableModel() {
  const lower = D.ids.map((t) => t.toLowerCase()), names = D.names ? D.names.map((t) => t.toLowerCase()) : null;
  const groups = D.groups ? D.groups.names.map((t) => t.toLowerCase()) : null;
  const c = (i) => D.of[i];
  const numbers = (key, title, array, format) => ({ key, name: title, value: (i) => array[c(i)], cell: (td, i) => { td.textContent = format(array[c(i)], c(i)); td.title = String(array[c(i)]); } });
  const text = (key, title, of) => ({ key, name: title, left: true, value: of, cell: (td, i) => { td.append(name(of(i))); td.title = of(i); } });
  function who() {
    const pick = (of) => (td, i) => { const b = make("button", { type: "button", class: "who", "data-entity": i }, name(of(i))); b.addEventListener("click", () => pick1(i, true)); td.append(b); td.title = D.ids[i]; };
    const list = D.names ? [Object.assign(text("name", "Name", called), { cell: pick(called) }), text("id", "Id", (i) => D.ids[i])] : [Object.assign(text("id", "Id", (i) => D.ids[i]), { cell: pick((i) => D.ids[i]) })];
    if (D.groups) list.push(text("group", "Group", (i) => D.groups.names[D.groups.of[i]]));
    return list;
  }
  function columns() {
    const r = D.results[state.rule], list = who();
    list.push(numbers("count", "True count", D.count, number));
    if (D.weight) list.push(numbers("weight", "Weight", D.weight, (v) => show(PLAIN, v)));
    if (r.money) list.push({ key: "due", name: "Due", value: (i) => r.truth[c(i)] * r.per, cell: (td, i) => { td.textContent = show(r.money, r.truth[c(i)] * r.per); td.title = String(r.truth[c(i)] * r.per); } });
    if (r.money) list.push({ key: "money", name: "Gain or loss", value: (i) => r.bias[c(i)] * r.per, cell: (td, i) => { td.textContent = show(r.money, r.bias[c(i)] * r.per, r.error[c(i)] * r.per, true); td.title = String(r.bias[c(i)] * r.per); } });
    const part = numbers("relative", r.task === "release" ? "In % of the true count" : "In % of what is due", r.relative, (v, k) => (Number.isFinite(v) ? show(RELATIVE, v, r.truth[k] > 0 ? r.error[k] / r.truth[k] : 0, true) : "nothing due"));
    if (r.money) list.push(part);
    list.push({ key: "effect", name: "Effect", bar: true, value: (i) => Math.abs(r.bias[c(i)]), cell: (td, i) => effect(td, r, r.bias[c(i)]) });
    if (!r.money) list.push(numbers("bias", r.about === "decision" ? "Change of the chance" : r.bare === r.unit ? "Bias" : `Bias, ${D.unit}`, r.bias, (v, k) => show(r.bare, v, r.error[k], true)));
    if (!r.money && r.about !== "decision") list.push(part);
    if (r.money) list.push(numbers("bias", "Share of the budget", r.bias, (v, k) => show(r.bare, v, r.error[k], true)));
    list.push(numbers("error", { bound: "Error bound", estimate: "Error, about", expansion: "Error, about", interval: "Standard error", half: "Half-width" }[r.kind], r.error, (v) => above(rough(r.bare), v)));
    list.push(numbers("deviation", "Standard deviation", r.deviation, (v) => show(Object.assign({}, r.bare, { digits: 3 }), v)));
    list.push(numbers("zero", "Chance of 0", r.zero, (v) => show(CHANCE, v)));
    const wide = r.money ? ["bias", "deviation", "error"] : ["deviation"]; // a sheet of paper is narrow
    return printing ? list.filter((c) => !wide.includes(c.key)) : list;
  }
  // What is saved: every rule, in full precision.
  function saved() {
    const list = who().concat([numbers("count", "", D.count, number)]);
    if (D.weight) list.push(numbers("weight", "", D.weight, number));
    D.results.forEach((r) => {
      const p = r.name.replace(/-/g, "_");
      list.push(numbers(`${p}_due`, "", r.truth, number), numbers(`${p}_bias`, "", r.bias, number), numbers(`${p}_relative`, "", r.relative, number));
      if (r.money) list.push({ key: `${p}_bias_money`, value: (i) => r.bias[c(i)] * r.per });
      list.push(numbers(`${p}_zero`, "", r.zero, number));
    });
    return list;
  }
  return {
    n: D.ids.length, noun: D.noun, key: "effect", mark: D.mark, columns, saved,
    matches: (i, q) => lower[i].includes(q) || (names && names[i].includes(q)) || (groups !== null && groups[D.groups.of[i]].includes(q)),
    marked: (i) => i === state.picked,
    found: (list, q) => pick1(q ? best(list, q.toLowerCase()) : null, false),
  };
  function best(list, q) {
    if (list.length === 0) return null;
    const exact = list.find((i) => lower[i] === q || (names && names[i] === q)), start = list.find((i) => lower[i].startsWith(q) || (names && names[i].startsWith(q)));
    return exact !== undefined ? exact : start !== undefined ? start : list[0];
  }
}
function effect(td, r, b) {
  const w = r.top > 0 ? (50 * Math.abs(b)) / r.top : 0, span = make("span", { class: `bar s${r.place % 8}`, "aria-hidden": "true" }), i = document.createElement("i");
  i.style.left = `${b < 0 ? 50 - w : 50}%`; i.style.width = `${w}%`;
  if (w > 0) span.append(i);
  td.className = "barcell";
  td.append(span, make("span", { class: "hidden", text: b < 0 ? "loss" : b > 0 ? "gain" : "none" }));
}

// ---- one entity -------------------------------------------------------------------------------------------------------
function pickClass(c) { const i = D.of.indexOf(c); if (i >= 0) pick1(i, false); }
function pick1(i, jump) {
  state.picked = i;
  const box = $("one");
  box.hidden = i === null;
  if (i !== null) {
    const c = D.of[i], r0 = D.results[state.rule];
    const facts = [`${number(D.count[c])} ${D.unit}`];
    if (D.names) facts.unshift(`id ${D.ids[i]}`);
    if (D.groups) facts.push(D.groups.names[D.groups.of[i]]);
    if (r0.money) facts.push(`due ${show(r0.money, r0.truth[c] * r0.per)}`);
    const head = make("tr", {}, ...["Post-processing", "Gain or loss", "Of what is due", "Chance of 0"].concat(D.limits && D.limits.length ? ["Within the limits"] : []).map((t) => make("th", { scope: "col", text: t })));
    const body = D.results.map((r) => {
      const [amount, part] = amounts(r, c), cells = [amount, part ? part.replace(" of what is due", "") : r.about === "decision" ? "\u2013" : "nothing due", show(CHANCE, r.zero[c])];
      if (D.limits && D.limits.length) cells.push(within(r, c));
      return make("tr", {}, make("th", { scope: "row" }, make("span", { class: `swatch s${r.place % 8}`, "aria-hidden": "true" }), name(r.name)), ...cells.map((t) => make("td", { text: t })));
    });
    box.replaceChildren(make("h3", {}, name(called(i))), make("p", { class: "note", text: facts.join(" \u00b7 ") }), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body))));
    if (jump) box.scrollIntoView({ block: "nearest" });
  }
  if (picture) picture.draw();
  if (atlas) atlas.draw();
  if (rows) rows.render();
}
// Whether this entity's own loss is within the limits that are about losses.
function within(r, c) {
  const mine = D.limits.filter((l) => l.key === "relative" || l.key === (r.money ? "money" : "plain"));
  if (!mine.length) return "\u2013";
  const lost = (l) => -(l.key === "relative" ? r.relative[c] : r.bias[c] * r.per);
  return mine.every((l) => !(lost(l) > l.value)) ? "yes" : "no";
}

// ---- choices ----------------------------------------------------------------------------------------------------------
function choose(k) {
  state.rule = k;
  const r = D.results[k];
  document.querySelectorAll(".panel").forEach((p) => { p.hidden = Number(p.dataset.view) !== k; });
  const units = $("units"), all = measures(r), now = measureOf(r).key;
  units.replaceChildren(...all.map((m) => {
    const input = make("input", { type: "radio", name: "unit", value: m.key });
    input.checked = m.key === now;
    input.addEventListener("change", () => { state.unit = m.key; caption(); picture.again(); if (atlas) atlas.draw(); });
    return make("label", {}, input, m.name);
  }));
  document.querySelectorAll(".rule-name").forEach((e) => { e.textContent = r.name; });
  caption();
  if (rows) { rows.page = 0; rows.update(); }
  if (picture) picture.again();
  if (atlas) atlas.draw();
  if (state.picked !== null) pick1(state.picked, false);
}
function caption() {
  const r = D.results[state.rule], m = measureOf(r), parts = [`Shown: ${shownRules().map(([s]) => s.name).join(", ")}.`];
  const none = m.key === "relative" ? D.order.reduce((n, c) => n + (Number.isFinite(r.relative[c]) ? 0 : D.times[c]), 0) : 0;
  if (none) parts.push(`${many(none)} ${D.noun} with nothing due gain something and have no percentage.`);
  if (D.points > D.count.length) parts.push(`${many(D.count.length)} of ${many(D.points)} distinct points are drawn: the most affected, and others evenly by size.`);
  document.querySelectorAll("figcaption .live").forEach((s) => { s.textContent = parts.join(" "); });
}
function group(g) {
  state.group = state.group === g ? null : g;
  rows.within = state.group === null ? null : (i) => D.groups.of[i] === state.group;
  document.querySelectorAll("button[data-group]").forEach((b) => b.setAttribute("aria-pressed", String(Number(b.dataset.group) === state.group)));
  $("chip").hidden = state.group === null;
  if (state.group !== null) $("chip-name").textContent = D.groups.names[state.group];
  rows.page = 0; rows.update(); picture.draw();
  if (atlas) atlas.draw();
}
// Everything on the page that depends on data; called again with new data by a live page.
function mountAudit(data) {
  prepare(data);
  rows = new Rows(tableModel());
  choose(Number((document.querySelector(".chooser input.rule:checked") || { value: 0 }).value));
  document.querySelectorAll(".chooser input.rule").forEach((input) => input.addEventListener("change", () => choose(Number(input.value))));
  document.querySelectorAll("button[data-group]").forEach((b) => b.addEventListener("click", () => group(Number(b.dataset.group))));
  if ($("chip")) $("chip").addEventListener("click", () => group(state.group));
  if ($("together")) $("together").addEventListener("change", (e) => { state.together = e.target.checked; caption(); picture.again(); });
  setTimeout(() => { // the words can be read before the pictures are drawn
    picture = new Picture($("plot-size"), auditPicture);
    if (D.tradeoff && $("plot-tradeoff")) new Picture($("plot-tradeoff"), tradeoffPicture);
    if (D.map && $("map")) atlas = new Atlas($("map"));
    root.classList.add("ready");
  });
}
