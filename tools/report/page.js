// Draws every chart of the page: what one looks like is in the page's charts, its rows lie beside it. Colours of text and
// axes are those of the page, so dark, light and paper need no second drawing.
"use strict";
(async () => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = read("charts"), config = charts.config;
  const different = (values, channel) => channel ? new Set(values.map((row) => row[channel.field])).size : 1;
  const rows = (spec, values) => different(values, spec.encoding.y) * different(values, spec.encoding.yOffset);
  const draw = async (place) => {
    const values = read(place.dataset.rows);
    const spec = Object.assign({}, charts[place.dataset.chart], { config, data: { values }, description: place.dataset.says });
    const narrow = place.clientWidth < 520;
    let step = spec.height && spec.height.step;
    if (step && narrow && spec.encoding.y.field === "case") { // names of cases, a line for each of their parts
      const parts = Math.max(...values.map((row) => row.case.split(/[,\n]/).length));
      const axis = Object.assign({}, spec.encoding.y.axis, { labelExpr: "split(datum.label, regexp('[,\\n]'))", labelLineHeight: 12 });
      spec.encoding = Object.assign({}, spec.encoding, { y: Object.assign({}, spec.encoding.y, { axis }) });
      step = Math.max(step, 12 * parts + 8);
    }
    if (step) spec.height = step * rows(spec, values); // Vega-Lite would warn of both
    const color = spec.encoding && spec.encoding.color && spec.encoding.color.field;
    const longest = Math.max(0, ...values.map((row) => String(row[color] || "").length));
    const columns = Math.max(1, Math.floor(place.clientWidth / (Math.min(config.legend.labelLimit, 7 * longest) + 30)));
    const legend = Object.assign({}, config.legend, { columns });
    spec.config = Object.assign({}, config, { legend, axisY: { labelLimit: Math.round(0.42 * place.clientWidth) } });
    const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, tooltip: { disableDefaultStyle: true } };
    await vegaEmbed(place, spec, options);
    place.dataset.drawn = "yes";
  };
  for (const place of document.querySelectorAll(".chart")) {
    try { await draw(place); } catch (error) {
      console.error(place.dataset.chart + ": " + error);
      place.textContent = "This chart could not be drawn; its table is below.";
    }
  }
  document.body.dataset.charts = "done";
  const open = () => document.querySelectorAll("details.table").forEach((one) => { one.open = true; });
  window.addEventListener("beforeprint", open);
  const lead = () => {
    const one = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (one && one.tagName === "DETAILS") one.open = true;
  };
  window.addEventListener("hashchange", lead);
  lead();
})();
