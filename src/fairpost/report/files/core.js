// What every page's script shares: numbers, packed arrays, colours, downloads. Text of the user's enters by textContent alone.
const root = document.documentElement;
const $ = (id) => document.getElementById(id);

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
const rough = (unit) => Object.assign({}, unit, { digits: 2, whole: false });
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const colour = (slot) => css(`--s${slot % 8}`);
const many = (n) => n.toLocaleString("en-US");

function unpack(text, Kind) {
  if (text === null || text === undefined) return null;
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
}
// An element with its attributes and children; children that are no elements become text.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  Object.entries(attributes || {}).forEach(([k, v]) => { if (k === "text") element.textContent = v; else if (v !== null && v !== undefined && v !== false) element.setAttribute(k, v === true ? "" : v); });
  element.append(...children.filter((c) => c !== null && c !== undefined));
  return element;
}
// The user's text, isolated so that its writing direction stays inside.
const name = (text) => make("bdi", { text });

// Saves a file from the page itself: nothing leaves the machine.
function save(file, content, kind) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: kind }));
  const link = make("a", { href: address, download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 2000);
}
// A field of a CSV; text that a spreadsheet would take for a formula gets a ' in front.
function field(value) {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = String(value === null || value === undefined ? "" : value), safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}
const csv = (rows) => rows.map((r) => r.map(field).join(",")).join("\n") + "\n";
const stem = () => (document.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").toLowerCase() || "fairpost").slice(0, 60);

// ---- paper, dark, size: who must draw again -------------------------------------------------------------------------
let printing = false;
const redrawn = []; // functions
const redraw = () => redrawn.forEach((f) => f());
const narrow = () => !printing && window.innerWidth < 640;
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
function paper(on) {
  if (printing === on) return;
  printing = on;
  root.classList.toggle("printing", on);
  redraw();
}
window.addEventListener("beforeprint", () => paper(true));
window.addEventListener("afterprint", () => paper(false));
window.matchMedia("print").addEventListener("change", (e) => paper(e.matches));

// ---- the command and the Python lines: kept and copied from the page -------------------------------------------------
function recipes() {
  document.querySelectorAll("button[data-recipe]").forEach((button) => {
    const text = $(button.dataset.recipe).textContent;
    button.addEventListener("click", () => save(button.dataset.file, text + "\n", "text/plain"));
  });
}
