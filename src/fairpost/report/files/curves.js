// The page of a plan or a sweep: every quantity against the noise, fairness and accuracy side by side.
function curvePicture(data, q) {
  const series = [], positive = [];
  q.lines.forEach((line) => {
    const floor = (v) => (v > 0 ? v : NaN);
    line.value.forEach((v) => { if (v > 0) positive.push(v); });
    series.push({ name: line.name, slot: line.place, x: line.x, y: line.value.map(floor), low: line.simulated ? line.low.map(floor) : null, high: line.high, band: line.simulated, joined: true, size: 4, tell: (i) => line.text[i] });
  });
  const lines = [];
  if (q.target !== null) { lines.push({ at: q.target, text: "target" }); positive.push(q.target); }
  if (q.found.length) series.push({ name: "most noise that meets the target", slot: 0, star: true, size: 9, x: q.found.map((f) => f.x), y: q.found.map((f) => f.y), tell: (i) => q.found[i].text });
  const xs = q.lines.flatMap((l) => l.x), y = positive.length ? [Math.min(...positive), Math.max(...positive)] : [0, 1];
  const range = y[0] < y[1] ? y : [y[0] / 2, y[0] * 2];
  return {
    height: 360, series, lines,
    x: { scale: logarithmic(), range: [Math.min(...xs), Math.max(...xs)], unit: PLAIN, title: data.x },
    y: { scale: positive.length ? logarithmic() : linear(), range, unit: q.unit, title: q.axis },
  };
}
function mountCurves(data) {
  data.quantities.forEach((q, k) => new Picture($(`plot-${k}`), () => curvePicture(data, q)));
  root.classList.add("ready");
}
