// What the live pages share: asking the server, one line at a time; what is under way, and stopping it.
const TAB = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
const NO_ANSWER = "The server does not answer: has `fairpost explore` ended?";
// A page that is left ("Forget now" sends its form) asks nothing more: the table that a late question is about is gone.
const leaving = new AbortController();
addEventListener("submit", (e) => { if (e.target.method === "post") leaving.abort(); });
// Sends a JSON object and hands every line of the answer to `on`. Ends with the last line, or null where it was aborted.
async function ask(path, given, on, stop) {
  const signal = stop ? AbortSignal.any([stop, leaving.signal]) : leaving.signal;
  let last = null;
  try {
    const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json", accept: "application/x-ndjson", "x-fairpost-tab": TAB }, body: JSON.stringify(given), signal, cache: "no-store" });
    if (!answer.ok || !answer.body) {
      const text = await answer.text();
      let line = text.trim();
      try { line = JSON.parse(text).error || line; } catch (_) { /* a plain line */ }
      return { event: "error", error: answer.status === 401 ? "This page is no longer connected: open the link that the terminal shows." : line };
    }
    // Decoded here and not in a pipe: a pipe whose source is aborted has promises of its own that nobody waits for.
    const reader = answer.body.getReader(), text = new TextDecoder();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      rest += text.decode(value, { stream: true });
      for (let at = rest.indexOf("\n"); at >= 0; at = rest.indexOf("\n")) {
        last = JSON.parse(rest.slice(0, at)); rest = rest.slice(at + 1);
        if (on) on(last);
      }
    }
  } catch (error) {
    if (signal.aborted) return null;
    return { event: "error", error: NO_ANSWER };
  }
  return last;
}
// One answer as a whole, body and all. A page that is left waits for none: its answer would be about a table that is gone.
async function plainPost(path, given) {
  try {
    const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json", accept: "application/json", "x-fairpost-tab": TAB }, body: JSON.stringify(given), signal: leaving.signal, cache: "no-store" });
    return { ok: answer.ok, headers: answer.headers, body: await answer.blob() };
  } catch (error) {
    if (leaving.signal.aborted) return new Promise(() => {});
    return { ok: false, body: new Blob([JSON.stringify({ error: NO_ANSWER })]) };
  }
}
function trouble(line) { const box = $("trouble"); box.hidden = !line; box.textContent = line || ""; }
function busy(text, part) {
  $("said").textContent = text;
  $("bar").hidden = part === undefined; $("stop").hidden = part === undefined;
  if (part !== undefined) $("bar").value = part;
}
// A number that a person types: "6.5e9", "6,500,000,000", "$500"; undefined where it is none.
function typed(id) {
  const text = $(id).value.replace(/[,$\s_\u00a0€£]/g, ""), value = Number(text);
  const bad = text !== "" && !Number.isFinite(value);
  if (bad) $(id).setAttribute("aria-invalid", "true"); else $(id).removeAttribute("aria-invalid");
  return text === "" || bad ? undefined : value;
}
const chosenRadio = (all, now, label, pick) => all.map((one) => {
  const input = make("input", { type: "radio", name: label, value: one.key });
  input.checked = one.key === now;
  input.addEventListener("change", () => pick(one.key));
  return make("label", {}, input, one.slot === undefined ? null : make("span", { class: `swatch s${one.slot % 8}`, "aria-hidden": "true" }), one.name);
});
