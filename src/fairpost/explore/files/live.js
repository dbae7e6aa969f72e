// The officer's page: choices, picture, rules, groups, plan, frontier, pins, files.
const LOW = 0.001, HIGH = 10;
const live = { have: null, base: null, flying: null, wanted: null, settle: 0, key: "", planKey: "", shown: null, pins: [null, null], trade: null, tradePicture: null, planning: null, started: false };
const short = (e) => Number(e.toPrecision(3));
const toEpsilon = (v) => short(LOW * (HIGH / LOW) ** (v / 1000));
const toSlider = (e) => Math.round((1000 * Math.log(e / LOW)) / Math.log(HIGH / LOW));

function choicesNow() {
  const out = { mechanism: $("mechanism").value, method: $("method").value, unit: $("unit").value || "people", noun: $("noun").value || "entities", currency: $("currency").value || "$" };
  out.epsilon = typed("epsilon-number");
  out.postprocess = Array.from(document.querySelectorAll("input[name=rule]:checked"), (b) => b.value);
  if ($("programme").value) out.programme = $("programme").value;
  ["delta", "sensitivity", "total", "budget", "runs"].forEach((k) => { const v = typed(k); if (v !== undefined) out[k] = v; });
  ["by_group", "any_error"].forEach((k) => { if ($(k) && $(k).checked) out[k] = true; });
  const targets = {};
  ["max_loss", "max_relative_loss", "max_alpha", "max_cost", "max_rmse", "max_relative_rmse"].forEach((k) => { const v = typed(k); if (v !== undefined) targets[k] = v; });
  if (Object.keys(targets).length) out.targets = targets;
  return out;
}
// What is wrong before anything is asked.
function refused(c) {
  if (!c.postprocess.length) return "Choose at least one rule.";
  if (!(c.epsilon > 0)) return "Epsilon must be a number above 0.";
  if (c.mechanism.includes("gaussian") && c.delta === undefined) return "Epsilon of Gaussian noise needs a delta, such as 0.000001 (under Mechanism, engine, words).";
  if (document.querySelector("#choices [aria-invalid]")) return "A field is not a number.";
  return null;
}

// ---- the picture: one request at a time, the latest wins --------------------------------------------------------------
function want(quick) {
  const start = performance.now();
  if (!live.wanted || !quick || live.wanted.quick) live.wanted = { quick, start: live.wanted ? live.wanted.start : start };
  if (live.flying && !live.flying.quick) live.flying.stop.abort();
  if (!live.flying) fly();
}
async function fly() {
  while (live.wanted) {
    const { quick, start } = live.wanted, c = choicesNow(), why = refused(c);
    live.wanted = null;
    if (why) { trouble(why); busy("Waiting for a choice."); continue; }
    const stop = new AbortController();
    live.flying = { quick, stop };
    if (!quick) busy("Computing.", 0);
    const last = await ask("/api/picture", Object.assign({}, c, { have: live.have, quick }), (e) => {
      if (e.event === "interpolated" || e.event === "done") { show1(e.result, c, start); }
      if (e.event === "progress") busy(`Simulating: ${many(e.done)} of ${many(e.of)} runs.`, e.done / e.of);
    }, stop.signal);
    live.flying = null;
    if (last === null || last.event === "cancelled") continue;
    if (last.event === "error") { trouble(last.error); busy("Not computed."); continue; }
    if (!quick && !live.wanted) settled(c, last.result);
  }
}
function show1(result, c, start) {
  trouble(null);
  if (result.base) { live.have = result.key; live.base = result.base; }
  const base = live.base, key = `${live.have}|${result.results.map((r) => r.name).join()}`;
  prepare(Object.assign({}, base, { groups: base.groups ? Object.assign({}, base.groups) : null, results: result.results, limits: result.limits, unit: c.unit, noun: c.noun }));
  live.shown = { result, choices: c, data: D };
  const fresh = !live.started || key !== live.key;
  if (fresh) mount(key); else again();
  $("sentence").textContent = result.sentence;
  $("words").textContent = result.noise.words;
  $("badge").hidden = !result.interpolated;
  root.classList.toggle("interpolated", result.interpolated);
  drawFigures($("figures").tBodies[0], result.figures, true);
  if (result.findings) drawFindings(result.findings);
  if (fresh) drawGroups(); else if ($("group-table")) inSight($("group-table"), drawGroups);
  let told = false;
  const tell = () => { if (told) return; told = true; performance.measure(result.interpolated ? "fairpost-interpolated" : "fairpost-exact", { start, end: performance.now() }); root.dataset.pictures = String(Number(root.dataset.pictures || 0) + 1); root.dataset.epsilon = String(c.epsilon); root.dataset.kind = result.interpolated ? "interpolated" : "exact"; };
  requestAnimationFrame(tell);
  setTimeout(tell, 40); // a tab that is not seen is not painted
}
function mount(key) {
  const fresh = !rows || key.split("|")[0] !== live.key.split("|")[0];
  live.key = key;
  state.rule = Math.min(state.rule, D.results.length - 1);
  const before = live.ruleName, at = D.results.findIndex((r) => r.name === before);
  state.rule = at >= 0 ? at : Math.max(0, D.results.findIndex((r) => r.top > 0));
  if (!rows) rows = new Rows(tableModel()); else if (fresh) { rows.model = tableModel(); state.picked = null; $("one").hidden = true; }
  $("shown").replaceChildren(...chosenRadio(D.results.map((r, k) => ({ key: String(k), name: r.name, slot: r.place })), String(state.rule), "view", (k) => { choose(Number(k)); live.ruleName = D.results[k].name; drawGroups(); }));
  choose(state.rule);
  if (!picture) picture = new Picture($("plot-size"), auditPicture);
  live.started = true;
  root.classList.add("js", "ready");
}
// What is off the screen is drawn when it comes into view (or goes to paper): tables cost more than the picture.
const waiting = new Map(), sight = new Set();
const seer = new IntersectionObserver((all) => all.forEach((e) => { if (e.isIntersecting) { sight.add(e.target); drawWaiting(e.target); } else sight.delete(e.target); }), { rootMargin: "300px" });
function drawWaiting(element) { const draw = waiting.get(element); if (draw) { waiting.delete(element); keepFocus(draw); } }
// A table that is made anew keeps the focus where it was: on the head of a column, a group or an entity, and where that
// entity has left the rows that are shown, on the table.
function keepFocus(draw) {
  const here = document.activeElement, head = here.closest("#table th[data-key]"), scroll = here.closest(".scroll");
  const same = head ? `#table th[data-key="${head.dataset.key}"] button` : ["group", "entity"].filter((k) => here.dataset[k] !== undefined).map((k) => `button[data-${k}="${here.dataset[k]}"]`)[0];
  draw();
  if (same && !here.isConnected) (document.querySelector(same) || scroll).focus({ preventScroll: true });
}
function inSight(element, draw) {
  seer.observe(element);
  if (sight.has(element) || printing) { waiting.delete(element); keepFocus(draw); } else waiting.set(element, draw);
}
redrawn.push(() => Array.from(waiting.keys()).forEach(drawWaiting));
function again() {
  caption();
  picture.draw();
  inSight($("table"), () => rows.update());
  if (state.picked !== null) pick1(state.picked, false);
}
function settled(c, result) {
  const by = [...new Set(result.figures.map((f) => f.method))].join(", ");
  clearTimeout(live.watch);
  watch(result.prepared);
  busy(result.interrupted ? "Stopped: what the finished runs have shown." : `Computed (${by}).`);
  result.notes.slice(0, 2).forEach((line) => { $("said").textContent += ` ${line}.`; });
  plan(c);
  clearTimeout(live.later);
  live.later = setTimeout(() => { tradeoff(c); recipesOf(c); }, 300);
}

// How far the levels behind the slider have come; until they are there, every step is computed.
async function watch(p) {
  root.dataset.prepared = String(p ? p.done : 0);
  $("prepared").hidden = !p || p.done >= p.of;
  if (!p || p.done >= p.of) return;
  $("prepared").textContent = `Preparing the slider: ${p.done} of ${p.of} levels.`;
  live.watch = setTimeout(async () => { try { watch((await (await fetch("/api/state", { cache: "no-store" })).json()).prepared); } catch (_) { /* the next picture says what is wrong */ } }, 600);
}

// ---- words and tables ---------------------------------------------------------------------------------------------------
function drawFigures(body, figures, full) {
  const who = (f) => make("td", {}, make("span", { text: f.text }), make("small", {}, name(cut(f.name)), f.alike ? ` and ${many(f.alike)} like it` : ""));
  body.replaceChildren(...figures.map((f) => {
    const verdict = make("td", { class: f.verdict ? `verdict-${f.verdict}` : null, text: f.verdict || "\u2013" });
    const cells = [verdict, who(f.loss), who(f.relative)];
    if (full) cells.push(who(f.gain));
    cells.push(...(full ? ["alpha", "total", "rmse", "zero"] : ["alpha", "total", "rmse"]).map((k) => make("td", { text: f[k].text })));
    if (full) cells.push(make("td", { text: f.method }));
    return make("tr", {}, make("th", { scope: "row" }, make("span", { class: `swatch s${f.place % 8}`, "aria-hidden": "true" }), name(f.rule), full ? make("small", { text: f.title }) : null), ...cells);
  }));
}
// The server makes these sentences from numbers, with names escaped; they are parsed without running anything, and links go.
function drawFindings(found) {
  $("findings").replaceChildren(...found.map((f) => {
    const doc = new DOMParser().parseFromString(f.html, "text/html"), p = make("p", {});
    doc.querySelectorAll("a").forEach((a) => a.replaceWith(...a.childNodes));
    p.append(...Array.from(doc.body.childNodes, (n) => document.importNode(n, true)));
    return make("li", {}, make("h3", { text: f.head }), p);
  }));
}
function drawGroups() {
  if (!$("group-table") || !D.groups) return;
  const r = D.results[state.rule], sums = D.groups.names.map((g, k) => ({ g, k, n: 0, bias: 0, due: 0 }));
  D.ids.forEach((_, i) => { const s = sums[D.groups.of[i]], c = D.of[i]; s.n += 1; s.bias += r.bias[c]; s.due += r.truth[c]; });
  const most = Math.max(...sums.map((s) => Math.abs(s.bias))), order = sums.sort((a, b) => Math.abs(b.bias) - Math.abs(a.bias)).slice(0, 300);
  $("group-table").tBodies[0].replaceChildren(...order.map((s) => {
    const button = make("button", { type: "button", "data-group": s.k, "aria-pressed": String(state.group === s.k) }, name(s.g));
    button.addEventListener("click", () => group(s.k));
    const cell = document.createElement("td");
    effect(cell, Object.assign({}, r, { top: most }), s.bias);
    return make("tr", {}, make("th", { scope: "row" }, button), make("td", { text: many(s.n) }), make("td", { text: show(r.shown, s.bias * r.per, 0, true) }), cell, make("td", { text: s.due > 0 ? show(RELATIVE, s.bias / s.due, 0, true) : "nothing due" }));
  }));
}

// ---- the smallest epsilon that passes, for each rule --------------------------------------------------------------------
async function plan(c) {
  const asked = Object.assign({}, c), box = $("passing");
  delete asked.epsilon;
  const key = JSON.stringify(asked);
  if (key === live.planKey) return;
  live.planKey = key;
  if (live.planning) live.planning.abort();
  if (!c.targets) { box.textContent = "Set a limit below to see the smallest epsilon that passes, for each rule."; return; }
  live.planning = new AbortController();
  box.textContent = "Looking for the smallest epsilon that passes.";
  let rule = 0, seen = 0;
  const last = await ask("/api/plan", c, (e) => { if (e.event === "progress") { if (e.done < seen) rule += 1; seen = e.done; box.textContent = `Looking for the smallest epsilon that passes: ${c.postprocess[rule] || ""}, ${e.done} of ${e.of} levels of noise.`; } }, live.planning.signal);
  if (last === null || last.event === "cancelled") { live.planKey = ""; return; }
  if (last.event === "error") { box.textContent = last.error; return; }
  const said = last.result.plans.map((p) => {
    const e = p.stated && p.stated.epsilon;
    return { rule: p.postprocess, epsilon: e, text: e ? `${p.postprocess}: epsilon ${e}` : `${p.postprocess}: none`, message: p.message };
  });
  const jump = said.map((s) => {
    if (!s.epsilon) return make("li", { text: `${s.rule}: ${s.message}.` });
    const b = make("button", { type: "button", class: "keep", text: `show epsilon ${s.epsilon}` });
    b.addEventListener("click", () => { setEpsilon(s.epsilon); want(false); });
    return make("li", {}, `${s.rule}: ${s.message}. `, b);
  });
  box.replaceChildren(`The smallest epsilon that passes: ${said.map((s) => s.text).join("; ")}. In words: ${last.result.verdict}.`, make("details", {}, make("summary", { text: "Rule by rule, and to go there" }), make("ul", {}, ...jump)));
}
function setEpsilon(e) {
  $("epsilon-number").value = String(e);
  $("epsilon").value = String(Math.min(1000, Math.max(0, toSlider(e))));
  $("epsilon").setAttribute("aria-valuetext", `epsilon ${e}`);
}

// ---- fairness against accuracy ------------------------------------------------------------------------------------------
async function tradeoff(c) {
  const last = await ask("/api/frontier", c);
  if (last === null || last.event !== "done") { $("tradeoff-said").textContent = last && last.error ? `Not for this choice: ${last.error}` : ""; return; }
  live.trade = last.result;
  const path = live.trade.path.map((t) => t.point), end = path[path.length - 1];
  $("tradeoff-said").textContent = `Along the line of ${live.trade.rule} alpha falls from ${tradeNumber(path[0].alpha.value)} to ${tradeNumber(end.alpha.value)} while the typical error goes from ${tradeNumber(path[0].rmse.value)} to ${tradeNumber(end.rmse.value)}.`;
  if (live.tradePicture) live.tradePicture.again(); else live.tradePicture = new Picture($("plot-tradeoff"), () => { D.tradeoff = tradeData(); return tradeoffPicture(); });
}
const tradeUnit = () => (live.trade.unit === "money" ? { factor: 1, prefix: $("currency").value, suffix: "", digits: 3, whole: true } : live.trade.unit === "share" ? CHANCE : PLAIN);
const tradeNumber = (v) => show(tradeUnit(), v);
// In the form that the report's picture takes.
function tradeData() {
  const t = live.trade, unit = tradeUnit();
  const place = (rule) => { const r = D.results.find((one) => one.name === rule); return r ? r.place : 6; };
  const one = (p, more) => ({ x: p.rmse.value, y: p.alpha.value, text: [`${p.postprocess}${more}`, `alpha ${tradeNumber(p.alpha.value)}`, `typical error ${tradeNumber(p.rmse.value)}`, `chance of 0: ${show(CHANCE, p.zero.value)}`] });
  return { unit, axis: unit.prefix || (t.unit === "share" ? "share of the budget" : D.unit), rule: t.rule, path: t.path.map((p) => one(p.point, `, threshold ${show(PLAIN, p.threshold)}`)), named: t.named.map((p) => Object.assign(one(p, ""), { name: p.postprocess, place: place(p.postprocess) })) };
}

// ---- two scenarios --------------------------------------------------------------------------------------------------------
function pin(k) {
  if (!live.shown) return;
  const kept = { data: live.shown.data, rule: state.rule, unit: state.unit, result: live.shown.result };
  live.pins[k] = kept;
  const box = $(`pin-${k}`), body = document.createElement("tbody"), plot = make("div", { class: "plot small", role: "group", "aria-label": `Scenario ${"AB"[k]}` });
  drawFigures(body, kept.result.figures, false);
  const heads = ["Rule", "Verdict", "Loses most", "In % of the due", "Alpha", "Total off by", "Typical error"].map((t) => make("th", { scope: "col", text: t }));
  const drop = make("button", { type: "button", class: "keep", text: "Unpin" });
  drop.addEventListener("click", () => { live.pins[k] = null; box.replaceChildren(make("h3", { text: "AB"[k] }), make("p", { class: "note", text: "Nothing is pinned." })); });
  box.replaceChildren(make("h3", { text: "AB"[k] }), make("p", { text: kept.result.sentence }), kept.result.interpolated ? make("p", { class: "badge", text: "interpolated" }) : "", make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `Rules of scenario ${"AB"[k]}` }, make("table", { class: "compare" }, make("thead", {}, make("tr", {}, ...heads)), body)), plot, drop);
  new Picture(plot, () => { const now = [D, state.rule, state.unit, state.picked, state.group]; [D, state.rule, state.unit, state.picked, state.group] = [kept.data, kept.rule, kept.unit, null, null]; try { return Object.assign(auditPicture(), { height: 320 }); } finally { [D, state.rule, state.unit, state.picked, state.group] = now; } });
}

// ---- files ------------------------------------------------------------------------------------------------------------------
async function recipesOf(c) {
  for (const kind of ["command", "python"]) {
    const answer = await plainPost(`/api/export/${kind}`, c);
    if (answer.ok) $(kind).textContent = (await answer.body.text()).trim();
  }
}
async function keep(kind, c) {
  busy("Making the file.");
  const answer = await plainPost(`/api/export/${kind}`, c);
  if (!answer.ok) { trouble(JSON.parse(await answer.body.text()).error); busy("Not saved."); return; }
  const file = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") || "");
  save(file ? file[1] : `fairpost-${kind}`, answer.body);
  busy("Saved.");
}

async function startLive() {
  const about = await (await fetch("/api/state", { cache: "no-store" })).json(), d = about.defaults || {};
  ["budget", "delta", "total", "max_loss", "max_relative_loss", "max_alpha", "max_cost", "max_rmse", "max_relative_rmse"].forEach((k) => { if (d[k] !== undefined && d[k] !== null) $(k).value = String(d[k]); });
  if (d.sensitivity) $("sensitivity").value = String(d.sensitivity);
  if (d.mechanism) $("mechanism").value = d.mechanism;
  if (d.programme) $("programme").value = d.programme;
  if (d.by_group && $("by_group")) $("by_group").checked = true;
  const usual = d.postprocess && d.postprocess.length ? d.postprocess : d.budget ? ["baseline", "pos", "pos-threshold"] : ["nonnegative", "simplex", "simplex-threshold"];
  document.querySelectorAll("input[name=rule]").forEach((b) => { b.checked = usual.includes(b.value); });
  if (!about.base) { $("programme").disabled = true; document.querySelectorAll("[data-programme]").forEach((b) => { b.disabled = true; }); }
  setEpsilon(d.epsilon || 0.1);
  $("epsilon").addEventListener("input", () => { setEpsilon(toEpsilon(Number($("epsilon").value))); want(true); clearTimeout(live.settle); live.settle = setTimeout(() => want(false), 300); });
  $("epsilon").addEventListener("change", () => { clearTimeout(live.settle); live.settle = setTimeout(() => want(false), 300); });
  $("epsilon-number").addEventListener("change", () => { const e = typed("epsilon-number"); if (e > 0) setEpsilon(e); want(false); });
  $("choices").addEventListener("submit", (e) => e.preventDefault());
  $("choices").addEventListener("change", (e) => {
    if (e.target.id === "epsilon" || e.target.id === "epsilon-number") return;
    if (e.target.id === "programme") document.querySelectorAll("input[name=rule]").forEach((b) => { const law = "programme" in b.dataset; b.checked = $("programme").value ? b.value === "as-written" || (law && b.checked) : !law && (b.checked || usual.includes(b.value)); });
    if (e.target.id === "budget" && typed("budget") && !document.querySelector("#rules input[value=pos]:checked, #rules [data-programme]:checked")) document.querySelectorAll("input[name=rule]").forEach((b) => { b.checked = ["baseline", "pos", "pos-threshold"].includes(b.value); });
    want(false);
  });
  $("stop").addEventListener("click", () => { live.wanted = null; plainPost("/api/stop", { lane: "picture" }); });
  $("chip").addEventListener("click", () => group(state.group));
  $("together").addEventListener("change", (e) => { state.together = e.target.checked; caption(); picture.again(); });
  document.querySelectorAll("[data-pin]").forEach((b) => b.addEventListener("click", () => pin(Number(b.dataset.pin))));
  document.querySelectorAll("[data-export]").forEach((b) => b.addEventListener("click", () => keep(b.dataset.export, choicesNow())));
  if ($("level-choices")) startLevels();
  want(false);
}
