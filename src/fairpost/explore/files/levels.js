// Levels of a hierarchy as tabs: each rule on each level, simulated with progress, stopped when the reader wants.
const levelled = { result: null, at: 0, picture: null, stop: null };
function startLevels() {
  $("level-choices").addEventListener("submit", (e) => { e.preventDefault(); askLevels(); });
  $("level-stop").addEventListener("click", () => plainPost("/api/stop", { lane: "levels" }));
}
async function askLevels() {
  const split = $("split").value.split(",").map((t) => t.trim()).filter((t) => t !== "").map(Number);
  const given = { rho: typed("rho"), runs: Math.round(typed("level-runs") || 200), postprocess: Array.from(document.querySelectorAll("input[name=tree-rule]:checked"), (b) => b.value), most: 3000 };
  if (split.length) given.split = split;
  $("level-bar").hidden = $("level-stop").hidden = false; $("level-bar").value = 0; $("level-said").textContent = "Simulating.";
  const last = await ask("/api/levels", given, (e) => { if (e.event === "progress") $("level-bar").value = e.done / e.of; });
  $("level-bar").hidden = $("level-stop").hidden = true;
  if (last === null || last.event === "cancelled") { $("level-said").textContent = "Stopped before anything was known."; return; }
  if (last.event === "error") { $("level-said").textContent = last.error; return; }
  levelled.result = last.result;
  const r = last.result.results[0];
  $("level-said").textContent = `${r.interrupted ? "Stopped at" : "Done:"} ${many(r.runs || 0)} runs per rule.`;
  levelled.at = Math.min(levelled.at, r.levels.length - 1);
  const tabs = r.levels.map((l, k) => { const b = make("button", { type: "button", role: "tab", id: `tab-${k}`, "aria-controls": "level-panel", text: `${l.name} (${many(l.n)})` }); b.addEventListener("click", () => showLevel(k)); return b; });
  $("level-tabs").replaceChildren(...tabs);
  $("level-tabs").onkeydown = (e) => { const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key]; if (step) { showLevel((levelled.at + step + tabs.length) % tabs.length); $(`tab-${levelled.at}`).focus(); } };
  $("level-panel").hidden = false;
  showLevel(levelled.at);
}
function showLevel(k) {
  levelled.at = k;
  document.querySelectorAll("#level-tabs [role=tab]").forEach((b, i) => { b.setAttribute("aria-selected", String(i === k)); b.tabIndex = i === k ? 0 : -1; });
  $("level-panel").setAttribute("aria-labelledby", `tab-${k}`);
  const all = levelled.result.results;
  $("level-caption").textContent = `Level ${all[0].levels[k].name}: ${many(all[0].levels[k].n)} units`;
  $("level-body").replaceChildren(...all.map((r) => { const l = r.levels[k]; return make("tr", {}, make("th", { scope: "row" }, name(r.postprocess)), make("td", {}, show(PLAIN4, l.alpha.value), make("small", { text: `${show(PLAIN, l.alpha.low)} to ${show(PLAIN, l.alpha.high)}` })), make("td", {}, name(l.alpha_pair[0])), make("td", {}, name(l.alpha_pair[1])), make("td", { text: show(PLAIN4, l.bias_rms) }), make("td", { text: show(PLAIN4, l.root_mean_squared_error) })); }));
  if (levelled.picture) levelled.picture.again(); else levelled.picture = new Picture($("plot-level"), levelPicture);
}
function levelPicture() {
  const unit = $("unit").value, slots = { "top-down": 1, "blue-down": 0, "blue-down-threshold": 2, joint: 3, "top-down-threshold": 5 };
  const series = levelled.result.results.map((r) => { const e = r.levels[levelled.at].entities; return { name: r.postprocess, slot: slots[r.postprocess] || 6, x: e.map((o) => o.count), y: e.map((o) => o.bias), tell: (i) => [e[i].id, `${number(e[i].count)} ${unit}`, `${r.postprocess}: ${show(PLAIN4, e[i].bias, e[i].half_width, true)} \u00b1 ${above(PLAIN, e[i].half_width)}`] }; });
  const ys = minmax(series.flatMap((s) => s.y)), xs = minmax(series.flatMap((s) => s.x));
  return { height: 360, series, x: { scale: xs[1] > 100 * Math.max(xs[0], 1) ? symlog(1) : linear(), range: xs[0] < xs[1] ? xs : [xs[0] - 1, xs[0] + 1], unit: PLAIN, title: `true count, ${unit}` }, y: { scale: scaleFor(series.map((s) => s.y)), range: [Math.min(0, ys[0]), Math.max(0, ys[1]) || 1], unit: PLAIN, title: `bias, ${unit}`, signed: true } };
}
