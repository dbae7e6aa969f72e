// The analyst's page: shares by a rule from noisy counts, intervals of the true ones, and what a switch of rules changes.
const desk = { data: null, view: "share", flying: null, picture: null, key: "", c: null, groups: null, names: null };
function shareChoices() {
  const out = { mechanism: $("mechanism").value }, by = $("by").value, value = typed("amount");
  if (by && value !== undefined) out[by] = value;
  ["delta", "budget", "confidence"].forEach((k) => { const v = typed(k); if (v !== undefined) out[k] = v; });
  if ($("simultaneous").checked && by) out.simultaneous = true;
  if ($("programme").value) out.programme = $("programme").value;
  out.postprocess = $("programme").value ? ["as-written", "levelled"] : [...new Set([$("rule").value, $("other").value])];
  if ($("group_budget") && $("group_budget").value.trim()) {
    out.group_budget = {};
    $("group_budget").value.trim().split("\n").forEach((line) => { const at = line.lastIndexOf(","); if (at > 0) out.group_budget[line.slice(0, at).trim()] = Number(line.slice(at + 1).trim()); });
    delete out.budget;
  }
  return out;
}
async function askShares() {
  const c = shareChoices();
  if (desk.flying) desk.flying.abort();
  const mine = desk.flying = new AbortController();
  busy("Computing.", 0);
  const last = await ask("/api/allocate", c, (e) => { if (e.event === "progress") busy(`${e.done} of ${e.of} rules.`, e.done / e.of); }, mine.signal);
  if (last === null || last.event === "cancelled") { if (mine === desk.flying) busy("Stopped."); return; }
  if (last.event === "error") { trouble(last.error); busy("Not computed."); return; }
  trouble(null);
  desk.data = last.result; desk.c = c;
  showShares();
}
const under = (rule) => rule.replace(/-/g, "_");
// One rule: amounts in money where there is some, the interval of the true amount, the estimated bias.
function column(rule) {
  const e = desk.data.entities, key = under(rule), per = desk.data.budget === null ? 1 : desk.data.budget;
  const of = (field) => (e[0][field] === undefined ? null : (i) => e[i][field] * per);
  return { rule, money: desk.data.budget !== null, of: of(`${key}_share`), low: of("true_share_low"), high: of("true_share_high"), bias: of(`${key}_estimated_bias`), error: of(`${key}_estimated_bias_error`) || (() => 0) };
}
function rulesNow() {
  const [a, b] = desk.c.programme ? ["as-written", "levelled"] : [$("rule").value, $("other").value];
  return [column(a), column(b)];
}
function showShares() {
  const [a, b] = rulesNow(), e = desk.data.entities, n = e.length;
  const unit = a.money ? { factor: 1, prefix: $("currency").value, suffix: "", digits: 3, whole: true } : CHANCE;
  desk.unit = unit; desk.a = a; desk.b = b;
  desk.groups = e[0].group === undefined ? null : e.map((o) => o.group);
  desk.names = e[0].name === undefined ? null : e.map((o) => o.name);
  const called = (i) => (desk.names ? desk.names[i] : e[i].id);
  desk.called = called;
  let gain = 0, loss = 0, moved = 0, none = 0;
  for (let i = 0; i < n; i++) { const d = b.of(i) - a.of(i); moved += Math.abs(d) / 2; if (d > b.of(gain) - a.of(gain)) gain = i; if (d < b.of(loss) - a.of(loss)) loss = i; if (a.of(i) === 0) none += 1; }
  const negative = e.filter((o) => o.noisy_count < 0).length;
  const items = [["What the noise did", `${many(negative)} of ${many(n)} noisy counts are negative; ${many(none)} get nothing by ${a.rule}.`]];
  if (a.rule !== b.rule) items.push([`If I switch to ${b.rule}`, `${show(unit, moved)} changes hands. ${called(gain)} gains most (${show(unit, b.of(gain) - a.of(gain), 0, true)}), ${called(loss)} loses most (${show(unit, b.of(loss) - a.of(loss), 0, true)}).`]);
  if (a.bias) { let up = 0, down = 0; for (let i = 0; i < n; i++) { if (a.bias(i) > a.bias(up)) up = i; if (a.bias(i) < a.bias(down)) down = i; } items.push([`The bias of ${a.rule}, estimated`, `From noisy counts alone: ${called(up)} ${show(unit, a.bias(up), a.error(up), true)} \u00b1 ${above(rough(unit), a.error(up))}, ${called(down)} ${show(unit, a.bias(down), a.error(down), true)} \u00b1 ${above(rough(unit), a.error(down))}.`]); }
  const missing = Object.entries(desk.data.bias.missing || {});
  if (missing.length) items.push(["No estimate of the bias", missing.map(([k, v]) => `${k}: ${v}`).join("; ")]);
  $("findings").replaceChildren(...items.map(([h, t]) => make("li", {}, make("h3", { text: h }), make("p", { text: t }))));
  const noise = desk.data.mechanism ? `${desk.data.mechanism.name} noise${desk.data.mechanism.epsilon ? ` at epsilon ${Number(desk.data.mechanism.epsilon.toPrecision(4))}` : ""}` : "noise that is not known";
  $("sentence").textContent = `${many(n)} noisy counts with ${noise}, ${a.money ? "money" : "shares"} by ${desk.c.programme ? `${desk.c.programme}, ` : ""}${a.rule}${desk.data.interval ? `, ${100 * desk.data.interval.confidence} % intervals of the true amounts` : ", no intervals: the noise is not given"}.`;
  $("views").replaceChildren(...chosenRadio([{ key: "share", name: a.money ? "money" : "shares" }, ...(a.rule !== b.rule ? [{ key: "switch", name: `change by ${b.rule}` }] : []), ...(a.bias ? [{ key: "bias", name: "estimated bias" }] : [])], desk.view, "view", (k) => { desk.view = k; desk.picture.again(); caption2(); }));
  if (!rows) rows = new Rows(shareModel()); else rows.model = shareModel();
  rows.update();
  if (desk.picture) desk.picture.again(); else desk.picture = new Picture($("plot-size"), sharePicture);
  caption2();
  busy("Computed.");
  recipesOf(desk.c);
  root.classList.add("js", "ready");
  root.dataset.pictures = String(Number(root.dataset.pictures || 0) + 1);
}
function caption2() {
  const words = { share: `What each gets by ${desk.a.rule} against its noisy count${desk.a.low && desk.data.entities.length <= 500 ? ", with the interval of the true amount" : ""}.`, switch: `What changes for each by a switch from ${desk.a.rule} to ${desk.b.rule}.`, bias: `The bias of ${desk.a.rule}, estimated from noisy counts.` };
  document.querySelectorAll("figcaption .live").forEach((s) => { s.textContent = words[desk.view] || words.share; });
}
function shareModel() {
  const e = desk.data.entities, lower = e.map((o) => o.id.toLowerCase()), named = desk.names && desk.names.map((t) => t.toLowerCase()), grouped = desk.groups && desk.groups.map((t) => t.toLowerCase());
  const text = (key, title, of) => ({ key, name: title, left: true, value: of, cell: (td, i) => { td.append(name(of(i))); td.title = of(i); } });
  const amount = (key, title, of, error, signed) => ({ key, name: title, value: of, cell: (td, i) => { td.textContent = show(desk.unit, of(i), error ? error(i) : 0, signed); td.title = String(of(i)); } });
  const columns = () => {
    const { a, b } = desk, list = desk.names ? [text("name", "Name", (i) => desk.names[i]), text("id", "Id", (i) => e[i].id)] : [text("id", "Id", (i) => e[i].id)];
    if (desk.groups) list.push(text("group", "Group", (i) => desk.groups[i]));
    list.push({ key: "noisy", name: "Noisy count", value: (i) => e[i].noisy_count, cell: (td, i) => { td.textContent = number(e[i].noisy_count); } });
    list.push(amount("amount", a.rule, a.of));
    if (a.low) list.push(amount("low", "True amount at least", a.low), amount("high", "at most", a.high));
    if (a.rule !== b.rule) list.push(amount("other", b.rule, b.of), amount("change", "Change by the switch", (i) => b.of(i) - a.of(i), null, true));
    if (a.bias) list.push(amount("bias", "Estimated bias", a.bias, a.error, true));
    return list;
  };
  return { n: e.length, noun: "entities", key: "amount", mark: null, columns, saved: columns, matches: (i, q) => lower[i].includes(q) || (named && named[i].includes(q)) || (grouped && grouped[i].includes(q)) };
}
function sharePicture() {
  const e = desk.data.entities, { a, b } = desk, of = desk.view === "switch" && a.rule !== b.rule ? (i) => b.of(i) - a.of(i) : desk.view === "bias" && a.bias ? a.bias : a.of;
  const signed = of !== a.of, y = e.map((_, i) => of(i)), x = e.map((o) => o.noisy_count);
  const ends = !signed && a.low && e.length <= 500 ? { low: e.map((_, i) => a.low(i)), high: e.map((_, i) => a.high(i)) } : {};
  const tell = (i) => [desk.called(i), `noisy count ${number(e[i].noisy_count)}`, `${a.rule}: ${show(desk.unit, a.of(i))}`, ...(a.low ? [`true amount ${show(desk.unit, a.low(i), 0, false, -1)} to ${show(desk.unit, a.high(i), 0, false, 1)}`] : []), ...(a.rule !== b.rule ? [`${b.rule}: ${show(desk.unit, b.of(i))}`] : [])];
  const ys = minmax(ends.high ? y.concat(ends.low, ends.high) : y), xs = minmax(x);
  return { height: 430, series: [Object.assign({ name: signed ? `${desk.view === "bias" ? a.rule : `${a.rule} to ${b.rule}`}` : a.rule, slot: 0, x, y, tell }, ends)], x: { scale: scaleFor([x]), range: xs, unit: PLAIN, title: "noisy count", signed: xs[0] < 0 }, y: { scale: scaleFor([y]), range: [Math.min(0, ys[0]), Math.max(0, ys[1]) || 1], unit: desk.unit, title: desk.view === "switch" ? "change by the switch" : desk.view === "bias" ? "estimated bias" : a.money ? "money" : "share", signed } };
}
async function startAnalyst() {
  const about = await (await fetch("/api/state", { cache: "no-store" })).json(), d = about.defaults || {};
  if (d.mechanism) $("mechanism").value = d.mechanism;
  ["epsilon", "scale", "sigma", "rho"].forEach((k) => { if (d[k]) { $("by").value = k; $("amount").value = String(d[k]); } });
  if (d.budget) $("budget").value = String(d.budget);
  if (d.delta) $("delta").value = String(d.delta);
  if (!about.base) $("programme").disabled = true;
  $("share-choices").addEventListener("submit", (e) => e.preventDefault());
  $("share-choices").addEventListener("change", askShares);
  $("stop").addEventListener("click", () => plainPost("/api/stop", { lane: "allocate" }));
  document.querySelectorAll("[data-export]").forEach((b) => b.addEventListener("click", () => keep(b.dataset.export, shareChoices())));
  askShares();
}
if ($("choices")) startLive();
if ($("share-choices")) startAnalyst();
