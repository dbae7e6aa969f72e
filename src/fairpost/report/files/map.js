// A map of the biases: areas filled by a diverging scale in steps. No tiles, no requests: the shapes are in the page.
const LOSS = ["#b35806", "#e08214", "#fdb863", "#fee0b6"], GAIN = ["#d8daeb", "#b2abd2", "#8073ac", "#542788"], NOTHING = "#f7f7f7", UNKNOWN = "#9a9a9a";
class Atlas {
  constructor(host) {
    this.host = host;
    const map = D.map, place = new Map();
    if (D.which) D.which.forEach((i, k) => place.set(i, k)); // a page that holds some of the entities
    this.who = map.of.map((i) => (D.which ? place.get(i) : i));
    this.picture = svg("svg", { viewBox: `-4 -4 ${map.width + 8} ${map.height + 8}`, class: "atlas", xmlns: SVG, "fill-rule": "evenodd" });
    this.areas = map.paths.map((d, k) => { const p = svg("path", { d, "data-k": k }); this.picture.append(p); return p; });
    this.picked = svg("path", { fill: "none", d: "" });
    this.picture.append(this.picked);
    const stage = make("div", { class: "stage", role: "img" });
    ["aria-labelledby"].forEach((k) => { stage.setAttribute(k, host.getAttribute(k)); host.removeAttribute(k); });
    stage.append(this.picture);
    this.tip = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.ramp = make("div", { class: "ramp" });
    host.append(stage, this.tip, this.ramp);
    stage.addEventListener("pointermove", (e) => this.point(e));
    stage.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    stage.addEventListener("click", (e) => { const i = this.at(e); if (i !== undefined) pick1(i, false); });
    this.draw();
    redrawn.push(() => this.draw());
  }
  at(e) { const k = e.target.getAttribute && e.target.getAttribute("data-k"); return k === null || k === undefined ? undefined : this.who[Number(k)]; }
  point(e) {
    const i = this.at(e);
    this.tip.hidden = i === undefined;
    if (i === undefined) return;
    const r = D.results[state.rule], c = D.of[i], box = this.host.getBoundingClientRect();
    this.tip.replaceChildren(make("b", { text: called(i) }), ...told(r, c).slice(1).map((t) => make("span", { text: t })));
    this.tip.style.left = `${Math.max(0, Math.min(e.clientX - box.left + 14, box.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${e.clientY - box.top + 14}px`;
  }
  // Steps by powers of ten (or quarters of the largest, where all are of one size), the same on both sides.
  draw() {
    const r = D.results[state.rule], m = measureOf(r), values = this.who.map((i) => (i === undefined ? NaN : m.of(D.of[i])));
    const scale = scaleFor([values.filter(Number.isFinite)]), top = values.reduce((a, v) => (Number.isFinite(v) ? Math.max(a, Math.abs(v)) : a), 0);
    const edges = scale.kind === "linear" ? [0.25, 0.5, 0.75].map((f) => f * top) : [3, 2, 1].map((k) => 10 ** (Math.ceil(Math.log10(top)) - k));
    const step = (v) => edges.filter((e) => Math.abs(v) > e).length;
    const fill = (v) => (!Number.isFinite(v) ? UNKNOWN : v === 0 ? NOTHING : v < 0 ? LOSS[3 - step(v)] : GAIN[step(v)]);
    const inside = state.group === null ? null : state.group;
    this.picture.setAttribute("stroke", css("--paper")); this.picture.setAttribute("stroke-width", Math.max(0.4, D.map.width / 3000));
    this.areas.forEach((p, k) => { p.setAttribute("fill", fill(values[k])); p.setAttribute("opacity", inside === null || (this.who[k] !== undefined && D.groups.of[this.who[k]] === inside) ? 1 : 0.2); });
    const k = state.picked === null ? -1 : this.who.indexOf(state.picked);
    this.picked.setAttribute("d", k < 0 ? "" : D.map.paths[k]);
    this.picked.setAttribute("stroke", css("--ink")); this.picked.setAttribute("stroke-width", D.map.width / 300);
    const name3 = (v) => show(Object.assign({}, m.unit, { digits: 1, suffix: m.unit.factor === 100 ? m.unit.suffix : "" }), v);
    const box = (c, t) => { const i = document.createElement("i"); i.style.background = c; return make("span", {}, i, t); };
    const low = [0, ...edges], text = (k2) => (k2 < 3 ? `${name3(low[k2])} to ${name3(low[k2 + 1])}` : `over ${name3(low[3])}`);
    this.ramp.replaceChildren(...[3, 2, 1, 0].map((k2) => box(LOSS[3 - k2], `loses ${text(k2)}`)), ...[0, 1, 2, 3].map((k2) => box(GAIN[k2], `gains ${text(k2)}`)), box(UNKNOWN, m.key === "relative" ? "nothing due" : "not in this file"));
  }
}
