// A table that is sorted, searched, paged and saved. `model` has n, noun, columns(), matches(i, query), file and mark;
// a column has key, name, value(i) (for sorting and saving) and cell(td, i), perhaps left, bar, first (descending first).
class Rows {
  constructor(model) {
    this.model = model;
    this.head = document.querySelector("#table thead tr"); this.body = document.querySelector("#table tbody");
    this.key = model.key; this.down = true; this.page = 0; this.query = ""; this.within = null; this.rows = [];
    this.order = new Intl.Collator("en", { numeric: true }).compare;
    let timer = 0;
    $("search").addEventListener("input", (e) => { clearTimeout(timer); timer = setTimeout(() => this.find(e.target.value), 80); });
    $("previous").addEventListener("click", () => { this.page -= 1; this.render(); });
    $("next").addEventListener("click", () => { this.page += 1; this.render(); });
    $("save-table").addEventListener("click", () => this.save());
    redrawn.push(() => { this.page = 0; this.header(); this.render(); });
  }
  find(text) { this.query = text; this.page = 0; this.update(); if (this.model.found) this.model.found(this.rows, text.trim()); }
  header() {
    this.head.replaceChildren(...this.model.columns().map((col) => {
      const th = make("th", { scope: "col", "data-key": col.key, class: col.bar ? "barcell" : null });
      if (col.left) th.style.textAlign = "left";
      th.setAttribute("aria-sort", this.key === col.key ? (this.down ? "descending" : "ascending") : "none");
      if (printing) { th.textContent = col.name; return th; } // browsers do not repeat buttons at the head of each sheet
      const button = make("button", { type: "button", text: col.name });
      button.addEventListener("click", () => {
        this.down = this.key === col.key ? !this.down : !col.left;
        this.key = col.key; this.page = 0; this.update();
        this.head.querySelector(`th[data-key="${col.key}"] button`).focus();
      });
      th.append(button);
      return th;
    }));
  }
  update() {
    const all = this.model.columns(), col = all.find((c) => c.key === this.key) || all.find((c) => c.key === this.model.key);
    this.key = col.key;
    const q = this.query.trim().toLowerCase(), rows = [];
    for (let i = 0; i < this.model.n; i++) if ((!this.within || this.within(i)) && (!q || this.model.matches(i, q))) rows.push(i);
    const keys = rows.map(col.value), text = typeof keys[0] === "string", sign = this.down ? -1 : 1;
    const place = (v) => (v === null || Number.isNaN(v) ? -Infinity : v);
    const index = rows.map((_, k) => k);
    index.sort((a, b) => sign * (text ? this.order(keys[a], keys[b]) : (place(keys[a]) > place(keys[b])) - (place(keys[a]) < place(keys[b]))) || rows[a] - rows[b]);
    this.rows = index.map((k) => rows[k]);
    const less = q || this.within;
    $("matches").textContent = less ? `${many(rows.length)} of ${many(this.model.n)} match` : `${many(this.model.n)} ${this.model.noun}`;
    this.header(); this.render();
  }
  render() {
    const all = this.model.columns(), size = printing ? 50 : 25, from = this.page * size, part = this.rows.slice(from, from + size);
    this.body.replaceChildren(...part.map((i) => {
      const tr = make("tr", { class: this.model.marked && this.model.marked(i) ? "picked" : null });
      all.forEach((col, n) => {
        const td = make(n ? "td" : "th", n ? {} : { scope: "row" });
        if (col.left) td.style.textAlign = "left";
        col.cell(td, i); tr.append(td);
      });
      return tr;
    }));
    if (!part.length) this.body.append(make("tr", {}, make("td", { colspan: all.length, class: "found-none", text: "Nothing matches." })));
    const total = this.rows.length;
    $("range").textContent = total ? `${many(from + 1)} to ${many(Math.min(from + size, total))} of ${many(total)}` : "";
    $("previous").disabled = from === 0; $("next").disabled = from + size >= total;
  }
  save() {
    const all = this.model.saved(), rows = [all.map((c) => c.key).concat(this.model.mark ? ["confidential"] : [])];
    this.rows.forEach((i) => rows.push(all.map((c) => c.value(i)).concat(this.model.mark ? [this.model.mark] : [])));
    save(`${stem()}.csv`, csv(rows), "text/csv");
  }
}
