// The page of a hierarchy: one level at a time, every rule.
function mountLevels(data) {
  const F8 = Float64Array, F4 = Float32Array;
  data.levels.forEach((l) => {
    l.count = unpack(l.count, F8); l.lower = l.ids.map((t) => t.toLowerCase());
    l.results.forEach((r) => { r.bias = unpack(r.bias, F8); r.half = unpack(r.half, F4); r.rmse = unpack(r.rmse, F4); });
    l.effect = l.ids.map((_, i) => l.results.reduce((m, r) => Math.max(m, Math.abs(r.bias[i])), 0));
  });
  let at = data.levels.length - 1, unit = "plain", picked = null, picture = null;
  const now = () => data.levels[at], part = (l, r, i) => (l.count[i] > 0 ? r.bias[i] / l.count[i] : NaN);
  const columns = () => {
    const l = now(), list = [{ key: "id", name: l.name, left: true, value: (i) => l.ids[i], cell: (td, i) => td.append(name(l.ids[i])) }];
    list.push({ key: "count", name: "True count", value: (i) => l.count[i], cell: (td, i) => { td.textContent = number(l.count[i]); } });
    l.results.forEach((r, k) => {
      list.push({ key: `bias${k}`, name: r.name, value: (i) => r.bias[i], cell: (td, i) => { td.textContent = `${show(PLAIN4, r.bias[i], r.half[i], true)} \u00b1 ${above(rough(PLAIN), r.half[i])}`; td.title = String(r.bias[i]); } });
      list.push({ key: `part${k}`, name: "in %", value: (i) => part(l, r, i), cell: (td, i) => { td.textContent = l.count[i] > 0 ? show(RELATIVE, part(l, r, i), r.half[i] / l.count[i], true) : "\u2013"; } });
    });
    list.push({ key: "effect", name: "Largest of all rules", value: (i) => l.effect[i], cell: (td, i) => { td.textContent = show(PLAIN, l.effect[i]); } });
    return list;
  };
  const saved = () => {
    const l = now(), list = columns().slice(0, 2);
    l.results.forEach((r) => { const p = r.name.replace(/-/g, "_"); list.push({ key: `${p}_bias`, value: (i) => r.bias[i] }, { key: `${p}_half_width`, value: (i) => r.half[i] }, { key: `${p}_relative`, value: (i) => part(l, r, i) }, { key: `${p}_rmse`, value: (i) => r.rmse[i] }); });
    return list;
  };
  const table = new Rows({
    get n() { return now().ids.length; }, get noun() { return `rows of ${many(now().n)}`; }, key: "effect", mark: data.mark, columns, saved,
    matches: (i, q) => now().lower[i].includes(q), marked: (i) => i === picked,
    found: (list, q) => { picked = q && list.length ? list[0] : null; picture.draw(); },
  });
  function drawing() {
    const l = now(), relative = unit === "relative", arrays = [], series = [];
    l.results.forEach((r) => {
      const of = (i) => (relative ? part(l, r, i) : r.bias[i]), some = Array.from(l.ids.keys()).filter((i) => Number.isFinite(of(i)));
      const y = some.map(of), half = (i) => (relative ? r.half[i] / l.count[i] : r.half[i]);
      const tell = (list) => (k) => [l.ids[list[k]], `${number(l.count[list[k]])} ${data.unit}`, `${r.name}: ${show(PLAIN4, r.bias[list[k]], r.half[list[k]], true)} ${data.unit}`].concat(l.count[list[k]] > 0 ? [show(RELATIVE, part(l, r, list[k]), r.half[list[k]] / l.count[list[k]], true)] : []);
      arrays.push(y);
      series.push(Object.assign({ name: r.name, slot: r.place, x: some.map((i) => l.count[i]), y, tell: tell(some) }, some.length <= 500 ? { low: some.map((i) => of(i) - half(i)), high: some.map((i) => of(i) + half(i)) } : {}));
      if (picked !== null && Number.isFinite(of(picked))) series.push({ name: "", star: true, slot: 0, size: 8, x: [l.count[picked]], y: [of(picked)], tell: tell([picked]) });
    });
    const [low, high] = minmax(arrays.flat()), xs = minmax(l.count);
    return {
      height: 430, series,
      x: { scale: xs[1] > 100 * Math.max(xs[0], 1) ? symlog(1) : linear(), range: xs[0] < xs[1] ? xs : [xs[0] - 1, xs[0] + 1], unit: PLAIN, title: `true count, ${data.unit}` },
      y: { scale: scaleFor(arrays), range: low < high ? [Math.min(0, low), Math.max(0, high)] : [-1, 1], unit: relative ? RELATIVE : PLAIN, title: relative ? "expected gain or loss, in % of the true count" : `expected gain or loss, in ${data.unit}`, signed: true },
    };
  }
  function choose(k) {
    at = k; picked = null; table.page = 0;
    document.querySelectorAll(".level-name").forEach((e) => { e.textContent = now().name; });
    const less = now().n > now().ids.length ? `${many(now().ids.length)} of ${many(now().n)} are in this file: the most affected, and others evenly by size.` : "";
    document.querySelectorAll("figcaption .live").forEach((e) => { e.textContent = less; });
    table.update();
    if (picture) picture.again();
  }
  document.querySelectorAll(".chooser input[name=level]").forEach((input) => input.addEventListener("change", () => choose(Number(input.value))));
  document.querySelectorAll(".chooser input[name=unit]").forEach((input) => input.addEventListener("change", () => { unit = input.value; picture.again(); }));
  choose(at);
  setTimeout(() => { picture = new Picture($("plot-level"), drawing); root.classList.add("ready"); });
}
