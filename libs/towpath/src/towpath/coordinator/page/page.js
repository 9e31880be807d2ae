"use strict";
// Latency, throughput and lag of the stages, and migrations, by asking the coordinator once a second.
// Whatever is shown is set as text, never as markup.

const PHASES = ["prepare", "release", "take_over", "background"];
const WIDTH = 360, HEIGHT = 130, LEFT = 46, RIGHT = 6, TOP = 8, BOTTOM = 18;
const SVG = "http://www.w3.org/2000/svg";
const EVERY_MS = 1000, KEPT_MS = 15 * 60 * 1000;

const CHARTS = [
  { title: "rows a second", lines: [["in", "rows"], ["out", "output_rows"]], text: count },
  { title: "input offsets behind", lines: [["read", "lag"], ["committed", "committed_lag"]], text: count },
  { title: "append until commit", lines: [["p50", "p50_ms"], ["p99", "p99_ms"]], text: ms, log: true },
  { title: "event until commit", lines: [["p50", "end_to_end_p50_ms"], ["p99", "end_to_end_p99_ms"]], text: ms, log: true },
];

const series = new Map();
let moves = [];

function count(value) {
  if (value >= 1e6) return (value / 1e6).toFixed(1) + " M";
  if (value >= 1e3) return (value / 1e3).toFixed(value >= 1e4 ? 0 : 1) + " k";
  return value < 10 && !Number.isInteger(value) ? value.toFixed(1) : String(Math.round(value));
}

function some(number, what) { return `${number} ${what}${number === 1 ? "" : "s"}`; }

function ms(value) {
  return value >= 1e4 ? (value / 1e3).toFixed(0) + " s" : value >= 1e3 ? (value / 1e3).toFixed(1) + " s" : value.toPrecision(3) + " ms";
}

function seconds(value) { return value === null || value === undefined ? "" : ms(value * 1000); }

function bytes(value) {
  if (typeof value !== "number") return "";
  return value >= 1e9 ? (value / 1e9).toFixed(1) + " GB" : value >= 1e6 ? (value / 1e6).toFixed(1) + " MB" : (value / 1e3).toFixed(1) + " kB";
}

function make(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
}

function draw(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A round number at or above the largest value; on a logarithmic axis powers of ten around all values.
function bounds(values, log) {
  if (log) {
    const known = values.filter((value) => value > 0);
    if (!known.length) return [1, 1000];
    const low = 10 ** Math.floor(Math.log10(Math.min(...known)));
    return [low, Math.max(low * 10, 10 ** Math.ceil(Math.log10(Math.max(...known))))];
  }
  const most = Math.max(1, ...values);
  const unit = 10 ** Math.floor(Math.log10(most));
  return [0, [1, 2, 5, 10].map((step) => step * unit).find((step) => step >= most)];
}

function chart(kind, points, nowMs, spanMs, movedAt) {
  const shown = points.filter((point) => point.at_ms >= nowMs - spanMs);
  const values = shown.flatMap((point) => kind.lines.map(([, name]) => point[name])).filter((value) => value !== null);
  const [low, high] = bounds(values, kind.log);
  const x = (at) => LEFT + (1 - (nowMs - at) / spanMs) * (WIDTH - LEFT - RIGHT);
  const share = (value) => (kind.log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low));
  const y = (value) => TOP + (1 - share(value)) * (HEIGHT - TOP - BOTTOM);
  const last = shown[shown.length - 1] || {};
  const said = kind.lines.map(([name, field]) => [name, typeof last[field] === "number" ? kind.text(last[field]) : "–"]);
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  picture.setAttribute("aria-label", kind.title + ": " + said.map((each) => each.join(" ")).join(", "));
  for (const part of [0, 0.5, 1]) {
    const value = kind.log ? low * (high / low) ** part : low + (high - low) * part;
    picture.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    picture.append(draw("text", { x: LEFT - 4, y: y(value) + 3, "text-anchor": "end" }, kind.text(value)));
  }
  for (const at of movedAt.filter((at) => at >= nowMs - spanMs)) {
    picture.append(draw("line", { class: "move", x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM }));
  }
  picture.append(draw("text", { x: LEFT, y: HEIGHT - 5 }, `−${spanMs / 60000} min`));
  picture.append(draw("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, "now"));
  kind.lines.forEach(([, field], place) => {
    let path = "", before = false;
    for (const point of shown) {
      const here = point[field] !== null;
      if (here) path += `${before ? "L" : "M"}${x(point.at_ms).toFixed(1)} ${y(point[field]).toFixed(1)}`;
      before = here;
    }
    picture.append(draw("path", { class: ["one", "two"][place], d: path }));
  });
  const caption = make("figcaption", {}, kind.title + " · ");
  said.forEach(([name, value], place) => caption.append(make("span", { class: ["one", "two"][place] }, name), " ", make("b", {}, value), "  "));
  return make("figure", {}, caption, picture);
}

function stageSection(stage, replicas, points, nowMs, spanMs, movedAt) {
  const section = make("section", { "data-stage": stage.stage });
  const state = stage.settled ? "settled" : stage.waiting_for || "moving";
  section.append(make("h2", {}, `${stage.stage} · ${some(stage.partitions, "task")} on ${some(stage.members.length, "replica")} · ${state}`));
  const charts = make("div", { class: "charts" });
  const kinds = CHARTS.filter((kind) => !kind.title.startsWith("event") || points.some((point) => point.end_to_end_p50_ms !== null));
  for (const kind of kinds) charts.append(chart(kind, points, nowMs, spanMs, movedAt));
  section.append(charts);
  const list = make("p", { class: "replicas" });
  for (const replica of replicas) {
    list.append(make("span", {}, `${replica.replica}: ${replica.tasks.join(", ") || "no tasks"} (${replica.draining ? "draining" : replica.phase})`));
  }
  section.append(list);
  return section;
}

function phaseBar(phases) {
  const bar = make("div", { class: "bar" });
  const total = PHASES.reduce((sum, name) => sum + (phases[name] || 0), 0);
  bar.setAttribute("title", PHASES.filter((name) => name in phases).map((name) => `${name.replace("_", " ")} ${seconds(phases[name])}`).join(", "));
  for (const name of PHASES) {
    if (phases[name] > 0) bar.append(make("i", { class: name, style: `width:${(100 * phases[name]) / total}%` }));
  }
  return bar;
}

function moveRow(move) {
  const came = move.progress || {};
  const step = move.stalled ? "stalled" : move.step;
  const hits = came.keys_asked > 0 ? ((100 * came.local_hits) / came.keys_asked).toFixed(0) + " %" : "";
  const bins = move.active && "bins_done" in came ? ` ${came.bins_done}/${came.bins_total}` : "";
  const cells = [move.task, move.source || "–", move.target, move.why, move.strategy, step + bins, seconds(move.paused_s), seconds(move.elapsed_s)];
  const row = make("tr", move.stalled ? { class: "bad", title: move.stalled } : {}, ...cells.map((text) => make("td", {}, String(text))));
  row.append(make("td", {}, phaseBar(move.phases)));
  for (const text of [bytes(came.bytes), typeof came.look_ups === "number" ? count(came.look_ups) : "", hits]) row.append(make("td", {}, text));
  return row;
}

function take(history) {
  for (const { stage, points } of history) {
    const all = (series.get(stage) || []).concat(points);
    series.set(stage, all.filter((point) => point.at_ms > all[all.length - 1].at_ms - KEPT_MS));
  }
}

function newest() {
  return Math.max(0, ...[...series.values()].map((points) => (points.length ? points[points.length - 1].at_ms : 0)));
}

function show(topology) {
  const spanMs = Number(document.getElementById("span").value) * 60000;
  const nowMs = newest();
  document.getElementById("app").textContent = topology.app;
  const said = document.getElementById("said");
  const stalled = moves.filter((move) => move.stalled).length;
  said.textContent = (topology.leading ? `leads, term ${topology.term}` : "does not lead: another coordinator does, or none") +
    `, ${some(moves.filter((move) => move.active).length, "migration")} under way` + (stalled ? `, ${stalled} stalled` : "");
  said.setAttribute("class", stalled || !topology.leading ? "bad" : "");
  document.getElementById("stages").replaceChildren(...topology.stages.map((stage) => {
    const replicas = topology.replicas.filter((replica) => replica.stage === stage.stage);
    const begun = moves.filter((move) => move.stage === stage.stage && move.begun_ago_s !== null).map((move) => nowMs - 1000 * move.begun_ago_s);
    return stageSection(stage, replicas, series.get(stage.stage) || [], nowMs, spanMs, begun);
  }));
  document.getElementById("moves").querySelector("tbody").replaceChildren(...moves.map(moveRow));
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: status ${answer.status}`);
  return answer.json();
}

async function look() {
  try {
    const [history, topology, migrations] = await Promise.all([ask(`history?since_ms=${newest()}`), ask("topology"), ask("migrations")]);
    take(history);
    moves = migrations;
    show(topology);
  } catch (error) {
    const said = document.getElementById("said");
    said.textContent = `the coordinator does not answer (${error.message}); replicas go on without it`;
    said.setAttribute("class", "bad");
  }
  setTimeout(look, EVERY_MS);
}

document.getElementById("legend").append(...PHASES.flatMap((name) => [make("i", { class: name }), name.replace("_", " ")]));
look();
