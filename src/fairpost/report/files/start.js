// A page that was written whole starts with the data inside it.
root.classList.add("js");
if ($("data")) {
  const data = JSON.parse($("data").textContent);
  recipes();
  ({ audit: mountAudit, curves: mountCurves, entities: mountEntities, levels: mountLevels })[data.page](data);
}
