"use strict";
// Draws the report from the block of JSON. Texts from files are only ever set as text, never as HTML.
(async () => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const sets = report.sets;
  const main = document.getElementById("main");

  // Elements

  const SVG = "http://www.w3.org/2000/svg";
  const fill = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  };
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  let ids = 0;
  const newId = (prefix) => `${prefix}-${++ids}`;

  const section = (title) => {
    const id = title.toLowerCase().replaceAll(" ", "-");
    const element = h("section", { "aria-labelledby": id }, h("h2", { id }, title));
    main.append(element);
    document.getElementById("contents").append(h("a", { href: `#${id}` }, title));
    return element;
  };
  const table = (titles, rows, texts = []) =>
    h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, h("table", {},
      h("thead", {}, h("tr", {}, titles.map((title, i) => h("th", { scope: "col", class: texts.includes(i) && "text" }, title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: texts.includes(i) && "text" }, cell)))))));
  const select = (label, options, value, change) =>
    h("label", {}, label, h("select", { onchange: (event) => change(event.target.value) },
      options.map(([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text))));

  // Numbers

  const bytes = (count) => {
    for (const [unit, length] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (count >= length) return `${(count / length).toFixed(1)}\u00a0${unit}`;
    return `${count}\u00a0B`;
  };
  const duration = (seconds) => {
    const whole = Math.round(seconds);
    if (whole < 60) return seconds < 10 && seconds % 1 ? `${seconds.toFixed(1)} s` : `${whole} s`;
    const two = (value) => String(value).padStart(2, "0");
    const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
    return hours ? `${hours}:${two(minutes)}:${two(whole % 60)} h` : `${minutes}:${two(whole % 60)} min`;
  };
  const short = (value) => (Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(2) : String(+value.toPrecision(4)));
  const grouped = (value) => value.toLocaleString("en");
  const plural = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;

  // What is shown: kept in the address, so that it stays when the page is loaded again.

  const state = { set: 0, n: 0, view: "stored", cls: 0, zoom: 0, group: "", paper: false, gap: "", off: [] };
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    if (["set", "n", "cls", "zoom"].includes(key) && /^\d{1,6}$/.test(value)) state[key] = Number(value);
    else if (["view", "group", "gap"].includes(key)) state[key] = value;
    else if (key === "paper") state.paper = value === "true";
  }
  const remember = () => {
    const kept = Object.entries(state).filter(([key, value]) => key !== "off" && value !== "" && value !== false);
    history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
  };
  if (state.set >= sets.length) state.set = 0;
  const current = () => sets[state.set];
  const largest = () => Math.max(1, ...sets.map((set) => set.shape[0]));
  const sizeOf = (set) => Math.min(state.n, set.shape[0]);
  if (state.n < 1 || state.n > largest()) state.n = sets.length ? current().shape[0] : 1;
  const redraws = { size: [], set: [] }; // what is drawn again when the size, or the set, is another one
  const changed = (what) => {
    if (what === "set") for (const draw of redraws.set) draw();
    for (const draw of redraws.size) draw();
    remember();
  };

  // Images

  await Promise.all([...document.querySelectorAll("#sheets img")].map((image) => image.decode().catch(() => null)));
  const pixels = new Map();
  const sheetPixels = (id) => {
    if (!pixels.has(id)) {
      const image = document.getElementById(id);
      const canvas = h("canvas", { width: image.naturalWidth, height: image.naturalHeight });
      const context = canvas.getContext("2d", { willReadFrequently: true });
      context.drawImage(image, 0, 0);
      pixels.set(id, context.getImageData(0, 0, canvas.width, canvas.height));
    }
    return pixels.get(id);
  };
  const cut = (id, column, row, height, width) => {
    const whole = sheetPixels(id);
    const part = new ImageData(width, height);
    for (let y = 0; y < height; y++) {
      const start = 4 * ((row * height + y) * whole.width + column * width);
      part.data.set(whole.data.subarray(start, start + 4 * width), 4 * y * width);
    }
    return part;
  };
  // Decoding, as FORMAT.md specifies it: a tile is enlarged to the whole image between its neighbouring pixels.
  const neighbours = (length, enlarged) => Array.from({ length: enlarged }, (_, k) => {
    const place = Math.max(0, ((k + 0.5) * length) / enlarged - 0.5);
    const i = Math.floor(place);
    return [i, Math.min(i + 1, length - 1), place - i];
  });
  const decode = (stored, factor, number) => {
    const { width, height } = stored;
    const [tileH, tileW] = [Math.ceil(height / factor), Math.ceil(width / factor)];
    const [top, left] = [Math.floor(number / factor) * tileH, (number % factor) * tileW];
    const at = (y, x, channel) => (top + y < height && left + x < width ? stored.data[4 * ((top + y) * width + left + x) + channel] : 127.5);
    const [rows, columns, image] = [neighbours(tileH, height), neighbours(tileW, width), new ImageData(width, height)];
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
      const [i, j, a] = rows[y];
      const [k, m, b] = columns[x];
      const place = 4 * (y * width + x);
      for (let c = 0; c < 3; c++) {
        const first = (1 - a) * at(i, k, c) + a * at(j, k, c);
        image.data[place + c] = (1 - b) * first + b * ((1 - a) * at(i, m, c) + a * at(j, m, c));
      }
      image.data[place + 3] = 255;
    }
    return image;
  };
  const picture = (set, view, cls, rank) => {
    const [height, width] = set.shape.slice(3);
    const stored = cut(view === "start" ? set.start : set.sheet, rank, cls, height, width);
    const factor = view === "decoded" ? set.factor : 1;
    const canvas = h("canvas", {
      width: factor * width + factor - 1, height: factor * height + factor - 1,
      role: "img", "aria-label": `${set.class_names[cls]}, ${view === "start" ? "first image" : "image"} ${rank + 1}`,
      title: `${set.class_names[cls]}, rank ${rank + 1}`, "data-rank": rank + 1,
    });
    const context = canvas.getContext("2d");
    for (let tile = 0; tile < factor ** 2; tile++) {
      const image = factor === 1 ? stored : decode(stored, factor, tile);
      context.putImageData(image, (tile % factor) * (width + 1), Math.floor(tile / factor) * (height + 1));
    }
    const zoom = state.zoom || Math.max(1, Math.round(64 / Math.max(height, width)));
    canvas.style.width = `${Math.round((canvas.width * zoom) / (factor === 1 ? 1 : factor))}px`;
    return canvas;
  };
  const viewOf = (set) => (state.view === "decoded" && set.factor === 1 ? "stored" : state.view === "start" && !set.start ? "stored" : state.view);
  const strip = (set, view, cls) => {
    const box = h("div", { class: "images", role: "group", "aria-label": `Images of ${set.class_names[cls]}` });
    for (let rank = 0; rank < set.shown_ranks; rank++) box.append(picture(set, view, cls, rank));
    return box;
  };
  const showFirst = (box, n) => {
    for (const canvas of box.querySelectorAll("canvas")) canvas.hidden = Number(canvas.dataset.rank) > n;
  };

  // Charts

  const COLOURS = 8;
  const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
  const look = (i) => ({ colour: `var(--c${i % COLOURS})`, dash: DASHES[Math.floor(i / COLOURS) % DASHES.length] });
  const ramp = (share) => `color-mix(in oklab, var(--ramp0), var(--ramp1) ${Math.round(100 * share)}%)`;
  const ticks = (low, high, count, isTime) => {
    const rough = (high - low) / count;
    const round = [1, 2, 5, 10, 15, 30].flatMap((factor) => [factor, 60 * factor]).concat([1, 2, 3, 6, 12].map((factor) => 3600 * factor)).sort((a, b) => a - b).find((step) => step >= rough);
    if (isTime && round && rough > 0.5) return Array.from({ length: Math.floor(high / round) + 1 }, (_, i) => i * round).filter((value) => value >= low);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const marks = [];
    for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) marks.push(+value.toPrecision(12));
    return marks;
  };
  const marksOf = (low, high, axis, count) => {
    if (axis.ticks) return axis.ticks.filter((_, i) => i % Math.ceil(axis.ticks.length / count) === 0 || i === axis.ticks.length - 1 && axis.ticks.length <= count);
    if (!axis.log) return ticks(low, high, count, axis.format === duration).filter((value) => !axis.integer || Number.isInteger(value));
    const values = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) for (const factor of high / low < 100 ? [1, 2, 5] : [1]) values.push(factor * 10 ** power);
    return values.filter((value) => value >= low && value <= high);
  };
  const observer = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) if (target.drawnAt === undefined || Math.abs(contentRect.width - target.drawnAt) > 1) target.draw();
  });
  const swatch = ({ colour, dash }) => s("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" },
    s("line", { x1: 0, x2: 28, y1: 5, y2: 5, style: `stroke:${colour};stroke-width:3;stroke-dasharray:${dash || "none"}` }));

  // spec: title, x and y {title, log, integer, format}, series [{name, points [[x, y, spread]], colour, dash, step}], band [[x, low, high]], here
  const chart = (spec, legend = null) => {
    const box = h("div", {});
    const readout = h("p", { class: "readout", "aria-live": "off" });
    const figure = h("figure", {}, h("figcaption", {}, spec.title), legend || legendOf(spec.series), box, readout);
    const shownX = (value) => (spec.x.format || short)(value);
    const shownY = (value) => (spec.y.format || short)(value);
    box.draw = () => {
      const drawn = spec.series.filter((series) => series.points.length);
      const width = Math.max(260, box.clientWidth || 600);
      const height = Math.round(Math.min(380, Math.max(220, width * 0.55)));
      box.drawnAt = box.clientWidth;
      const points = drawn.flatMap((series) => series.points);
      if (!points.length) { box.replaceChildren(h("p", { class: "soft" }, "Nothing is chosen.")); return; }
      const xs = points.map(([x]) => x);
      const lows = points.map(([, y, spread]) => y - (spread || 0)).concat((spec.band || []).map(([, low]) => low));
      const highs = points.map(([, y, spread]) => y + (spread || 0)).concat((spec.band || []).map(([, , high]) => high));
      const range = (low, high, log) => (low < high ? [low, high] : log ? [low / 2, high * 2] : [low - 1, high + 1]);
      let [left, right] = range(Math.min(...xs), Math.max(...xs), spec.x.log);
      let [bottom, top] = range(Math.min(...lows), Math.max(...highs), spec.y.log);
      if (!spec.y.log) { const pad = (top - bottom) * 0.06; bottom = spec.y.zero ? 0 : bottom - pad; top += pad; }
      const f = (value, log) => (log ? Math.log(value) : value);
      const margin = { left: 30 + 7 * Math.max(...marksOf(bottom, top, spec.y, Math.floor(height / 60)).map((mark) => shownY(mark).length)), right: 14, top: 10, bottom: 42 };
      const px = (x) => margin.left + ((f(x, spec.x.log) - f(left, spec.x.log)) / (f(right, spec.x.log) - f(left, spec.x.log))) * (width - margin.left - margin.right);
      const py = (y) => height - margin.bottom - ((f(y, spec.y.log) - f(bottom, spec.y.log)) / (f(top, spec.y.log) - f(bottom, spec.y.log))) * (height - margin.top - margin.bottom);
      const id = newId("chart");
      const root = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": id }, s("title", { id }, describe(spec, drawn, shownX, shownY)));
      for (const mark of marksOf(bottom, top, spec.y, Math.floor(height / 60))) {
        root.append(s("line", { class: "tick", x1: margin.left, x2: width - margin.right, y1: py(mark), y2: py(mark) }),
          s("text", { x: margin.left - 8, y: py(mark) + 4, "text-anchor": "end" }, shownY(mark)));
      }
      for (const mark of marksOf(left, right, spec.x, Math.floor(width / 75))) {
        root.append(s("text", { x: px(mark), y: height - margin.bottom + 18, "text-anchor": "middle" }, shownX(mark)));
      }
      root.append(s("path", { class: "axis", d: `M${margin.left} ${height - margin.bottom}H${width - margin.right}` }),
        s("text", { x: (margin.left + width) / 2, y: height - 4, "text-anchor": "middle" }, spec.x.title),
        s("text", { transform: `translate(13 ${(height - margin.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, spec.y.title));
      if (spec.band && spec.band.length > 1) {
        const there = spec.band.map(([x, low]) => `${px(x)} ${py(low)}`);
        const back = spec.band.map(([x, , high]) => `${px(x)} ${py(high)}`).reverse();
        root.append(s("path", { class: "band", "data-band": true, d: `M${there.join("L")}L${back.join("L")}Z`, style: `fill:${spec.bandColour}` }));
      }
      const here = spec.here && spec.here();
      if (here && here >= left && here <= right) root.append(s("line", { class: "here", x1: px(here), x2: px(here), y1: margin.top, y2: height - margin.bottom }));
      for (const series of drawn) {
        const places = series.points.map(([x, y]) => [px(x), py(y)]);
        const path = places.map(([x, y], i) => (i === 0 ? `M${x.toFixed(1)} ${y.toFixed(1)}` : series.step ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `L${x.toFixed(1)} ${y.toFixed(1)}`)).join("");
        root.append(s("path", { class: "line", "data-series": series.name, d: path, style: `stroke:${series.colour};stroke-dasharray:${series.dash || "none"}` }));
        series.points.forEach(([x, y, spread], i) => {
          if (spread) root.append(s("path", { class: "bar", d: `M${places[i][0]} ${py(y - spread)}V${py(y + spread)}`, style: `stroke:${series.colour}` }));
          if (series.points.length <= 40 && !series.step) root.append(s("circle", { cx: places[i][0], cy: places[i][1], r: 3.5, style: `fill:${series.colour}` }));
        });
      }
      root.addEventListener("pointermove", (event) => {
        const box = root.getBoundingClientRect();
        const place = ((event.clientX - box.left) / box.width) * width;
        const x = xs.reduce((best, value) => (Math.abs(px(value) - place) < Math.abs(px(best) - place) ? value : best), xs[0]);
        const values = drawn.map((series) => [series.name, series.points.find((point) => point[0] === x)]).filter(([, point]) => point);
        readout.textContent = `${spec.x.title} ${shownX(x)}: ${values.map(([name, [, y, spread]]) => `${name} ${shownY(y)}${spread ? ` ± ${shownY(spread)}` : ""}`).join("; ")}`;
      });
      root.addEventListener("pointerleave", () => { readout.textContent = ""; });
      box.replaceChildren(root);
    };
    observer.observe(box);
    figure.draw = box.draw;
    return figure;
  };
  const legendOf = (series) => (series.length < 2 ? null : h("ul", { class: "legend" }, series.map((each) => h("li", {}, h("label", {}, swatch(each), each.name)))));
  const describe = (spec, drawn, shownX, shownY) => `${spec.title}. ${drawn.slice(0, 12).map((series) => {
    const [first, last] = [series.points[0], series.points[series.points.length - 1]];
    return `${series.name}: ${shownY(first[1])} at ${shownX(first[0])}, ${shownY(last[1])} at ${shownX(last[0])}`;
  }).join("; ")}.`;

  // Heat map: a row for each class, a column for each outer iteration, a colour for each size.
  const heatMap = (title, outers, values, names, most) => {
    const box = h("div", {});
    const readout = h("p", { class: "readout" });
    const scale = h("ul", { class: "legend", "aria-label": "Colours" }, Array.from({ length: most + 1 }, (_, size) => size)
      .filter((size) => most <= 10 || size % Math.ceil(most / 10) === 0)
      .map((size) => h("li", {}, h("label", {}, s("svg", { viewBox: "0 0 28 14", "aria-hidden": "true" }, s("rect", { width: 28, height: 14, style: `fill:${size ? ramp(size / most) : "transparent"};stroke:var(--line)` })), size ? String(size) : "none"))));
    box.draw = () => {
      box.drawnAt = box.clientWidth;
      const width = Math.max(260, box.clientWidth || 600);
      const names_ = Math.min(110, width * 0.28);
      const row = names.length > 30 ? 8 : 18;
      const height = names.length * row + 36;
      const column = (width - names_ - 14) / outers.length;
      const id = newId("heat");
      const root = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": id, "data-heat": true },
        s("title", { id }, `${title}: ${names.length} classes, ${outers.length} outer iterations. After the last: ${names.map((name, c) => `${name} ${values[values.length - 1][c]}`).slice(0, 30).join(", ")}.`));
      names.forEach((name, c) => {
        if (row > 10) {
          const letters = Math.floor(names_ / 7);
          root.append(s("text", { x: names_ - 6, y: c * row + 13, "text-anchor": "end" }, name.length > letters ? `${name.slice(0, letters - 1)}…` : name));
        }
        let start = 0;
        for (let i = 1; i <= outers.length; i++) {
          if (i < outers.length && values[i][c] === values[start][c]) continue;
          if (values[start][c]) root.append(s("rect", { x: names_ + start * column, y: c * row, width: (i - start) * column + 0.3, height: row - 1, style: `fill:${ramp(values[start][c] / most)}` }));
          start = i;
        }
      });
      root.append(s("path", { class: "axis", d: `M${names_} ${names.length * row + 2}H${width - 14}` }),
        s("text", { x: names_, y: names.length * row + 16 }, String(outers[0])),
        s("text", { x: width - 14, y: names.length * row + 16, "text-anchor": "end" }, String(outers[outers.length - 1])),
        s("text", { x: (names_ + width) / 2, y: height - 4, "text-anchor": "middle" }, "outer iteration"));
      root.addEventListener("pointermove", (event) => {
        const frame = root.getBoundingClientRect();
        const [x, y] = [((event.clientX - frame.left) / frame.width) * width, ((event.clientY - frame.top) / frame.height) * height];
        const [i, c] = [Math.floor((x - names_) / column), Math.floor(y / row)];
        readout.textContent = i >= 0 && i < outers.length && c >= 0 && c < names.length ? `${names[c]}, outer iteration ${outers[i]}: ${values[i][c] || "none"}` : "";
      });
      box.replaceChildren(root);
    };
    observer.observe(box);
    return h("figure", {}, h("figcaption", {}, title), scale, box, readout);
  };

  // Sections

  const summary = document.getElementById("summary");
  summary.textContent = [plural(sets.length, "set"), ...new Set(sets.map((set) => set.provenance.dataset).filter(Boolean).map(String)), `mipset ${report.mipset}`].join(" · ");
  for (const note of report.notes) main.append(h("p", { class: "note" }, note));

  const accuracyText = (expected) => {
    if (!expected) return "not measured";
    return expected.networks > 1 ? `${expected.mean.toFixed(1)} ± ${expected.std.toFixed(1)} %` : `${expected.mean.toFixed(1)} %`;
  };

  const imagesSection = () => {
    const element = section("Images");
    const controls = h("div", { class: "controls" });
    const rows = h("div", { class: "rows columns", id: "grid" });
    const facts = h("dl", { class: "facts" });
    const note = h("p", { class: "note" });
    const budgetText = h("p", { id: "budget-text", role: "status" });
    const slider = h("input", { type: "range", id: "size", min: 1, max: largest(), step: 1, value: state.n, "aria-describedby": "keys", oninput: (event) => { state.n = Number(event.target.value); changed("size"); } });
    const output = h("output", { for: "size", id: "size-text" });
    const budget = h("input", { type: "number", id: "budget", min: 0, step: "any", placeholder: "such as 100", oninput: () => {
      const limit = 1000 * Number(budget.value);
      const set = current();
      if (!budget.value) { budgetText.textContent = ""; return; }
      const fitting = set.sizes.filter((plan) => plan.file_bytes <= limit);
      if (!fitting.length) { budgetText.textContent = `Not even one image per class fits: its file has ${bytes(set.sizes[0].file_bytes)}.`; return; }
      state.n = fitting[fitting.length - 1].size;
      changed("size");
      const plan = set.sizes[state.n - 1];
      budgetText.textContent = `A device with ${bytes(limit)} gets ${plural(plan.size, "image")} per class: a file of ${bytes(plan.file_bytes)}, accuracy ${accuracyText(plan.expected)}.`;
    } });
    element.append(
      h("div", { class: "size" }, h("label", { for: "size" }, output, slider)),
      h("p", { class: "soft", id: "keys" }, "Move the slider, or press the arrow keys, Home and End, to see the subset S_[n]: the first n images of each class."),
      facts, controls, budgetText, note, rows);

    const drawControls = () => {
      const set = current();
      const views = [["stored", set.factor > 1 ? "stored" : "images"]];
      if (set.factor > 1) views.push(["decoded", `decoded (${set.factor ** 2} training images in each)`]);
      if (set.start) views.push(["start", "initialisation"]);
      controls.replaceChildren();
      if (sets.length > 1) controls.append(select("set", sets.map((each, i) => [i, each.name]), state.set, (value) => { state.set = Number(value); changed("set"); }));
      if (views.length > 1) {
        controls.append(h("fieldset", {}, h("legend", {}, "shown images"), h("div", { class: "choices" }, views.map(([key, text]) =>
          h("label", {}, h("input", { type: "radio", name: "view", value: key, checked: key === viewOf(set), onchange: () => { state.view = key; changed("set"); } }), text)))));
      }
      const usual = Math.max(1, Math.round(64 / Math.max(...set.shape.slice(3))));
      const zooms = [...new Set([1, 2, 3, 4, 6, 8, usual])].sort((a, b) => a - b);
      controls.append(select("enlarged", zooms.map((zoom) => [zoom, `${zoom} ×`]), state.zoom || usual, (value) => { state.zoom = Number(value); changed("set"); }),
        h("label", { for: "budget" }, "storage of a device in kB", budget));
    };
    const drawGrid = () => {
      const set = current();
      note.textContent = [set.pictures, set.start ? "" : set.no_start].filter(Boolean).join(" ");
      rows.replaceChildren();
      if (set.sheet) set.class_names.forEach((name, cls) => rows.append(h("div", { class: "row" }, h("span", {}, name), strip(set, viewOf(set), cls))));
    };
    const drawSize = () => {
      const set = current();
      const n = sizeOf(set);
      const plan = set.sizes[n - 1];
      slider.max = largest();
      slider.value = state.n;
      slider.setAttribute("aria-valuetext", `${plural(n, "image")} per class, ${bytes(plan.file_bytes)}, accuracy ${accuracyText(plan.expected)}`);
      output.textContent = `S_[${n}] of ${set.name}: ${plural(n, "image")} per class · ${bytes(plan.file_bytes)} · ${accuracyText(plan.expected)}`;
      const expected = plan.expected;
      const how = !expected ? "run mipset evaluate FILE --save to measure it" : [
        expected.networks > 1 ? `mean ± standard deviation over ${expected.networks} networks` : "one network, so no interval",
        expected.measured ? "" : "interpolated between measured sizes", expected.network, expected.protocol].filter(Boolean).join("; ");
      facts.replaceChildren(...[
        ["accuracy", `${accuracyText(expected)} (${how})`, "accuracy"],
        ["file of this size", `${bytes(plan.file_bytes)} (${grouped(plan.file_bytes)} bytes)`, "bytes"],
        ["a device gets", `${plural(n * set.shape[1], "stored image")}, ${plural(plan.images, "training image")}`, "device"],
        ["memory for training", `${bytes(plan.memory)}, without the network`, "memory"],
        ["epochs", plan.epochs === null ? "not known" : grouped(plan.epochs), "epochs"],
        ...(set.state ? [["this run", set.state, "state"]] : []),
      ].map(([title, text, key]) => h("div", { "data-fact": key }, h("dt", {}, title), h("dd", {}, text))));
      showFirst(rows, n);
    };
    redraws.set.push(drawControls, drawGrid);
    redraws.size.push(drawSize);
    document.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest("input, select, [role=region], summary, textarea")) return;
      const wanted = { ArrowLeft: state.n - 1, ArrowRight: state.n + 1, Home: 1, End: largest() }[event.key];
      if (wanted === undefined || (["Home", "End"].includes(event.key) && event.target !== document.body)) return;
      event.preventDefault();
      state.n = Math.min(largest(), Math.max(1, wanted));
      changed("size");
    });
  };

  const sideSection = () => {
    const pictured = sets.filter((set) => set.sheet);
    if (pictured.length + pictured.filter((set) => set.start).length < 2) return;
    const element = section("Side by side");
    const controls = h("div", { class: "controls" });
    const rows = h("div", { class: "rows", id: "side" });
    element.append(h("p", {}, "The same class in every set, at the size of the slider: how far the images have moved from where they started, and how they differ."), controls, rows);
    const names = [...new Set(pictured.flatMap((set) => set.class_names))];
    redraws.set.push(() => {
      state.cls = Math.min(state.cls, names.length - 1);
      const focused = controls.contains(document.activeElement);
      controls.replaceChildren(select("class", names.map((name, i) => [i, name]), state.cls, (value) => { state.cls = Number(value); changed("set"); }));
      if (focused) controls.querySelector("select").focus();
      rows.replaceChildren();
      const starts = new Set();
      for (const set of pictured) {
        const cls = set.class_names.indexOf(names[state.cls]);
        if (cls < 0) continue;
        const view = state.view === "decoded" && set.factor > 1 ? "decoded" : "stored";
        const source = set.start && document.getElementById(set.start).src;
        if (source && !starts.has(source)) {
          starts.add(source);
          rows.append(h("div", { class: "row" }, h("span", {}, `initialisation of ${set.name}`), strip(set, "start", cls)));
        }
        rows.append(h("div", { class: "row" }, h("span", {}, set.name), strip(set, view, cls)));
      }
    });
    redraws.size.push(() => showFirst(rows, state.n));
  };

  const accuracySection = () => {
    const element = section("Accuracy against size");
    const own = report.curves.filter((curve) => !curve.paper);
    const reported = report.curves.filter((curve) => curve.paper);
    if (!own.length && !reported.length) {
      element.append(h("p", {}, "No accuracy was measured: run mipset evaluate FILE --save, and make the report again."));
      return;
    }
    const controls = h("div", { class: "controls" });
    const place = h("div", { class: "charts wide" });
    const sentence = h("p", { id: "gap-text" });
    const values = h("details", {}, h("summary", {}, "Values"));
    element.append(controls, place, sentence, values);
    const groups = [...new Set(own.map((curve) => curve.group))];
    if (!groups.includes(state.group)) state.group = groups[0] || "";
    if (!own.length) state.paper = true;
    const nameOf = (curve) => (curve.paper ? `${curve.name} (paper)` : curve.name);
    const draw = () => {
      const shown = [...own.filter((curve) => curve.group === state.group), ...(state.paper ? reported : [])];
      const styled = shown.map((curve, i) => ({ curve, name: nameOf(curve), ...look(i), ...(curve.paper ? { dash: "7 4" } : {}) }));
      const visible = styled.filter(({ name }) => !state.off.includes(name));
      const reference = [false, true].map((paper) => shown.find((curve) => curve.paper === paper && /(^|: )baseline-a$/.test(curve.name))).find(Boolean);
      const comparable = visible.filter(({ curve }) => curve !== reference);
      if (!comparable.some(({ name }) => name === state.gap)) state.gap = comparable.length ? comparable[0].name : "";
      const gapped = comparable.find(({ name }) => name === state.gap);
      controls.replaceChildren();
      if (groups.length > 1) controls.append(select("measured with", groups.map((group) => [group, group]), state.group, (value) => { state.group = value; changed("set"); }));
      if (reported.length) controls.append(h("label", { class: "check" }, h("input", { type: "checkbox", id: "paper", checked: state.paper, onchange: (event) => { state.paper = event.target.checked; changed("set"); document.getElementById("paper").focus(); } }), "the curves that the paper reports"));
      if (reference && comparable.length > 1) controls.append(select("gap to Baseline A of", comparable.map(({ name }) => [name, name]), state.gap, (value) => { state.gap = value; changed("set"); }));
      let band = [];
      sentence.textContent = "";
      if (reference && gapped) {
        const best = new Map(reference.points.map((point) => [point.size, point.mean]));
        band = gapped.curve.points.filter((point) => best.has(point.size)).map((point) => [point.size, point.mean, best.get(point.size)]);
        if (band.length) {
          const mean = band.reduce((sum, [, low, high]) => sum + high - low, 0) / band.length;
          sentence.textContent = `Subset degradation of ${gapped.name}: on average over ${plural(band.length, "size")}, it is ${Math.abs(mean).toFixed(1)} points ${mean >= 0 ? "below" : "above"} ${nameOf(reference)}, one condensation for each size (shaded).`;
        }
      } else if (!reference) sentence.textContent = "The gap to Baseline A, one condensation for each size, is not known: no Baseline A was measured" + (reported.length ? "; the paper's is shown with its curves." : ".");
      const sizes = [...new Set(visible.flatMap(({ curve }) => curve.points.map((point) => point.size)))].sort((a, b) => a - b);
      const legend = h("ul", { class: "legend" }, styled.map((each) => h("li", {}, h("label", {}, h("input", { type: "checkbox", checked: !state.off.includes(each.name), onchange: (event) => {
        state.off = event.target.checked ? state.off.filter((name) => name !== each.name) : [...state.off, each.name];
        changed("set");
      } }), swatch(each), each.name))));
      const spreads = new Set(visible.flatMap(({ curve }) => (curve.points.some((point) => point.spread) ? [curve.spread_over] : [])));
      const figure = chart({
        title: `Accuracy in %${state.group ? `: ${state.group}` : ""}${spreads.size ? `; bars: standard deviation over ${[...spreads].join(" or ")}` : ""}`,
        x: { title: "images per class", ticks: sizes, log: sizes.length > 1 && sizes[sizes.length - 1] / sizes[0] > 20, format: String },
        y: { title: "accuracy in %", format: (value) => value.toFixed(value < 10 ? 1 : 0 + (value % 1 ? 1 : 0)) },
        series: visible.map((each) => ({ ...each, points: each.curve.points.map((point) => [point.size, point.mean, point.spread]) })),
        band, bandColour: gapped && gapped.colour, here: () => state.n,
      }, legend);
      place.replaceChildren(figure);
      place.redraw = () => figure.draw();
      values.replaceChildren(h("summary", {}, "Values"), table(["method", ...sizes.map(String), "mean"], visible.map(({ name, curve }) => {
        const at = new Map(curve.points.map((point) => [point.size, point]));
        const cells = sizes.map((size) => (at.has(size) ? at.get(size).mean.toFixed(1) + (at.get(size).spread ? ` ± ${at.get(size).spread.toFixed(1)}` : "") : "-"));
        return [name, ...cells, sizes.every((size) => at.has(size)) ? (sizes.reduce((sum, size) => sum + at.get(size).mean, 0) / sizes.length).toFixed(2) : "-"];
      })));
    };
    redraws.set.push(draw);
    redraws.size.push(() => place.redraw());
  };

  const runSection = () => {
    if (!sets.some((set) => set.log) && !report.progressions.length) return;
    const element = section("The run");
    const which = h("p", { class: "soft" });
    const controls = h("div", { class: "controls" });
    const place = h("div", { class: "charts" });
    element.append(controls, which, place);
    redraws.set.push(() => {
      const set = current();
      const log = set.log;
      place.replaceChildren();
      controls.replaceChildren();
      if (sets.length > 1) controls.append(select("set", sets.map((each, i) => [i, each.name]), state.set, (value) => { state.set = Number(value); changed("set"); }));
      which.textContent = !log ? `There is no log of the run of ${set.name}.`
        : `${set.name}: ${grouped(log.entries)} of ${grouped(log.about.outer)} outer iterations${log.every > 1 ? `, every ${log.every}th is shown` : ""}.`;
      const outer = { title: "outer iteration", integer: true, format: (value) => String(value) };
      if (log && log.outer.length) {
        place.append(chart({ title: "Loss", x: outer, y: { title: "loss" }, series: [{ name: "loss", ...look(0), points: log.outer.map((t, i) => [t, log.loss[i]]) }] }));
        const measured = log.outer.map((t, i) => [t, log.distances[i]]).filter(([, values]) => values.length);
        if (measured.length) {
          const N = measured[0][1].length;
          const sizes = Array.from({ length: N }, (_, i) => i + 1).filter((n) => N <= 10 || [1, 2, 3, 5, 7, 10, 20, 30, 50, 100, N].includes(n));
          place.append(chart({
            title: `Distance of every size from the real images (${set.recipe.metric || "metric"}; mean over classes)`, x: outer,
            y: { title: "distance", log: measured.every(([, values]) => Math.min(...values) > 0) },
            series: sizes.map((n, i) => ({ name: `size ${n}`, colour: ramp((i + 1.5) / (sizes.length + 0.5)), dash: DASHES[i % 2 ? 1 : 0], points: measured.map(([t, values]) => [t, values[n - 1]]) })),
          }));
        }
        const expanded = (column) => column.map((value) => (Array.isArray(value) ? value : set.class_names.map(() => value)));
        const [selected, frozen] = [expanded(log.selected), expanded(log.frozen)];
        if (![...selected, ...frozen].flat().some(Boolean)) place.append(h("figure", {}, h("figcaption", {}, "Most learnable subset"), h("p", {}, `The policy ${set.recipe.policy || ""} selects no subset and freezes nothing.`)));
        else if ([...log.selected, ...log.frozen].some(Array.isArray)) {
          place.append(heatMap("Most learnable subset of each class", log.outer, selected, set.class_names, set.shape[0]), heatMap("Frozen prefix of each class", log.outer, frozen, set.class_names, set.shape[0]));
        } else {
          place.append(chart({ title: "Most learnable subset and frozen prefix", x: outer, y: { title: "images per class", integer: true, zero: true }, series: [
            { name: "most learnable subset", ...look(0), step: true, points: log.outer.map((t, i) => [t, selected[i][0]]) },
            { name: "frozen prefix", ...look(1), dash: "7 4", step: true, points: log.outer.map((t, i) => [t, frozen[i][0]]) }] }));
        }
        place.append(chart({ title: "Time", x: outer, y: { title: "time", format: duration }, series: [
          { name: "on the clock", ...look(0), points: log.outer.map((t, i) => [t, log.seconds[i]]) },
          { name: "of the processor", ...look(1), dash: "7 4", points: log.outer.map((t, i) => [t, log.processor_seconds[i]]) }] }));
        if (log.memory.every((value) => value !== null)) place.append(chart({ title: "Memory of the process", x: outer, y: { title: "memory", zero: true, format: bytes }, series: [{ name: "memory", ...look(0), points: log.outer.map((t, i) => [t, log.memory[i]]) }] }));
      }
      for (const group of new Set(report.progressions.map((each) => each.group))) {
        const series = report.progressions.filter((each) => each.group === group).map((each, i) => ({ name: each.name, ...look(i), points: each.points.map((point) => [point.seconds, point.mean, point.spread]) }));
        place.append(chart({ title: `Mean accuracy over all sizes against time: ${group}`, x: { title: "time of condensation", format: duration }, y: { title: "mean accuracy in %" }, series }));
      }
    });
  };

  const costSection = () => {
    if (!report.costs.length) return;
    const element = section("Cost");
    const known = (value, write) => (value === null || value === undefined ? "-" : write(value));
    element.append(h("p", {}, "Time on the clock with the training of experts, processor time of the iterations, and the most memory that the process held."),
      table(["set", "time", "experts", "processor time", "memory", "condensations", "stored images", "stored bytes", "forward passes", "backward passes"],
        report.costs.map((cost) => [cost.name, duration(cost.seconds), known(cost.preparing_seconds, duration), known(cost.processor_seconds, duration), known(cost.memory, bytes),
          grouped(cost.condensations), grouped(cost.images), bytes(cost.bytes), known(cost.forward, grouped), known(cost.backward, grouped)])));
  };

  const auditSection = () => {
    if (!sets.some((set) => set.audit)) return;
    const element = section("Nearest real images");
    const place = h("div", {});
    element.append(place);
    redraws.set.push(() => {
      const set = current();
      place.replaceChildren();
      if (!set.audit) { place.append(h("p", {}, `No audit of ${set.name} was saved: run mipset audit FILE --save.`)); return; }
      const { neighbours: found, usual, real_class_names: names } = set.audit;
      const close = found.filter((each) => each.share < 0.5).length;
      const [height, width] = set.shape.slice(3);
      const zoom = Math.max(1, Math.round(64 / Math.max(height, width)));
      const image = (column, row, label) => {
        const canvas = h("canvas", { width, height, role: "img", "aria-label": label, style: `width:${zoom * width}px` });
        canvas.getContext("2d").putImageData(cut(set.pairs, column, row, height, width), 0, 0);
        return canvas;
      };
      place.append(h("p", {}, `${close} of ${plural(found.length, "training image")} of ${set.name} are closer to a real image than half of the real images are to each other (${usual.toFixed(1)} grey levels). The closest:`));
      const titles = ["image", ...(set.pairs ? ["", "real"] : []), "distance", "real images with a closer neighbour", "nearest real image"];
      const drawn = set.pairs ? document.getElementById(set.pairs).naturalHeight / height : 20;
      const rows = found.slice(0, Math.min(20, drawn)).map((each, i) => {
        const name = `${set.class_names[each.label]}, rank ${each.rank}, tile ${each.tile}`;
        const real = each.file || `training image ${each.row} (${names[each.real_label]})`;
        return [name, ...(set.pairs ? [image(0, i, name), image(1, i, real)] : []), each.distance.toFixed(1), `${Math.round(100 * each.share)} %`, real];
      });
      place.append(table(titles, rows, [0, titles.length - 1]));
    });
  };

  const originSection = () => {
    const element = section("How it was made");
    const place = h("div", {});
    element.append(place);
    const text = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value));
    const list = (values) => h("dl", { class: "settings" }, Object.entries(values).filter(([, value]) => value !== null).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, text(value)))));
    redraws.set.push(() => {
      const set = current();
      const about = set.log ? Object.fromEntries(["torch", "threads", "processes"].filter((key) => key in set.log.about).map((key) => [key, set.log.about[key]])) : {};
      place.replaceChildren(
        h("h3", {}, `${set.name}: command to repeat it`),
        set.command ? h("pre", { tabindex: "0" }, h("code", {}, set.command)) : h("p", {}, "The file does not tell all that the command needs."),
        h("h3", {}, "Origin"), list({ ...set.provenance, ...about, seed: set.recipe.seed ?? null }),
        h("h3", {}, "Recipe"), Object.keys(set.recipe).length ? list(set.recipe) : h("p", {}, "The file has no recipe."),
        h("details", {}, h("summary", {}, "SHA-256 of each rank"), h("pre", { tabindex: "0" }, set.rank_sha256.map((digest, i) => `${i + 1}  ${digest}`).join("\n"))));
    });
  };

  if (!sets.length && !report.curves.length) main.append(h("p", { id: "nothing" }, "There is nothing to show yet."));
  if (sets.length) { imagesSection(); sideSection(); }
  if (sets.length || report.curves.length) accuracySection();
  if (sets.length) runSection();
  costSection();
  if (sets.length) { auditSection(); originSection(); }
  for (const draw of [...redraws.set, ...redraws.size]) draw();
  document.body.dataset.drawn = "true";

  // A page that is served while a run goes on asks now and then whether there is a newer one.
  const version = document.body.dataset.version;
  if (version) {
    const ask = async () => {
      try {
        const answer = await fetch("version", { cache: "no-store" });
        if (answer.ok && (await answer.text()) !== version) { location.reload(); return; }
      } catch { /* the server has ended: the page stays as it is */ }
      setTimeout(ask, 1500);
    };
    setTimeout(ask, 1500);
  }
})();
