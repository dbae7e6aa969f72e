// Pages about noisy counts alone: what each entity gets, in pictures and in a table.
function mountEntities(data) {
  const F8 = Float64Array, of = data.groups ? unpack(data.groups.of, Int32Array) : null;
  const column = {};
  data.columns.forEach((c) => { c.values = unpack(c.values, F8); column[c.key] = c; });
  let group = null, picked = null;
  const called = (i) => (data.names ? data.names[i] : data.ids[i]);
  const lower = data.ids.map((t, i) => `${t}\n${data.names ? data.names[i] : ""}\n${of ? data.groups.names[of[i]] : ""}`.toLowerCase());
  const text = (key, title, value) => ({ key, name: title, left: true, value, cell: (td, i) => { td.append(name(value(i))); td.title = value(i); } });
  const who = () => [...(data.names ? [text("name", "Name", called)] : []), text("id", "Id", (i) => data.ids[i]), ...(of ? [text("group", "Group", (i) => data.groups.names[of[i]])] : [])];
  const columns = () => who().concat(data.columns.map((c) => ({ key: c.key, name: c.name, value: (i) => c.values[i], cell: (td, i) => { td.textContent = c.unit ? show(c.unit, c.values[i], 0, c.signed) : number(c.values[i]); td.title = String(c.values[i]); } })));
  const pictures = [], again = () => pictures.forEach((p) => p.draw());
  const table = new Rows({
    n: data.ids.length, noun: data.noun, key: data.sort, mark: null, columns,
    saved: () => who().concat(data.columns.map((c) => ({ key: c.name.toLowerCase().replace(/[^a-z0-9]+/g, "_"), value: (i) => c.values[i] }))),
    matches: (i, q) => lower[i].includes(q), marked: (i) => i === picked,
    found: (list, q) => { picked = q && list.length ? list[0] : null; again(); },
  });
  const size = { value: (i) => Math.abs(column[data.sort].values[i]) };
  const sortColumn = () => { const all = columns(); all.forEach((c) => { if (c.key === data.sort && column[c.key].signed) c.value = size.value; }); return all; };
  table.model.columns = sortColumn;
  table.update();
  function drawing(d) {
    const x = column.noisy.values, all = Array.from(data.ids.keys()), arrays = [], series = [];
    d.series.forEach((s) => {
      const y = column[s.y].values, tell = (list) => (k) => [called(list[k]), `noisy count ${number(x[list[k]])}`, `${s.name}: ${show(d.unit, y[list[k]], 0, d.signed)}`].concat(s.low ? [`true: ${show(d.unit, column[s.low].values[list[k]], 0, false, -1)} to ${show(d.unit, column[s.high].values[list[k]], 0, false, 1)}`] : []);
      const of1 = (list, more) => Object.assign({ name: s.name, slot: s.place, x: list.map((i) => x[i]), y: list.map((i) => y[i]), tell: tell(list) }, s.low && list.length <= 500 ? { low: list.map((i) => column[s.low].values[i]), high: list.map((i) => column[s.high].values[i]) } : {}, more);
      arrays.push(y);
      series.push(of1(all, { faint: group !== null }));
      if (group !== null) series.push(of1(all.filter((i) => of[i] === group), { name: "" }));
      if (picked !== null) series.push(of1([picked], { name: "", star: true, size: 8 }));
    });
    const [a, b] = minmax(x), ys = arrays.map(minmax), low = Math.min(0, ...ys.map((r) => r[0])), high = Math.max(0, ...ys.map((r) => r[1]));
    return {
      height: 360, series,
      x: { scale: scaleFor([x]), range: a < b ? [a, b] : [a - 1, a + 1], unit: PLAIN, title: "noisy count" },
      y: { scale: scaleFor(arrays), range: low < high ? [low, high] : [-1, 1], unit: d.unit, title: d.axis, signed: d.signed },
    };
  }
  function choose(g) {
    group = group === g ? null : g;
    table.within = group === null ? null : (i) => of[i] === group;
    document.querySelectorAll("button[data-group]").forEach((b) => b.setAttribute("aria-pressed", String(Number(b.dataset.group) === group)));
    $("chip").hidden = group === null;
    if (group !== null) $("chip-name").textContent = data.groups.names[group];
    table.page = 0; table.update(); again();
  }
  document.querySelectorAll("button[data-group]").forEach((b) => b.addEventListener("click", () => choose(Number(b.dataset.group))));
  if ($("chip")) $("chip").addEventListener("click", () => choose(group));
  setTimeout(() => {
    data.drawings.forEach((d, k) => pictures.push(new Picture($(`plot-${k}`), () => drawing(d))));
    root.classList.add("ready");
  });
}
