/** The timeline of an experiment: its window stands in the address and is fetched, thinned, from the server. */

import { showError } from "../../ui/action_error.js";
import { showMessage } from "../../ui/named_trials.js";
import { mayPass, rest } from "../../lib/rest.js";
import { duration } from "../../lib/formats.js";
import { page, startHead } from "../head.js";
import { TimelineChart } from "./timeline_chart.js";

/** Shortest pause between two looks while things change, in milliseconds; and after the window was moved. */
const LOOK_PAUSE = 2_000;
const MOVE_PAUSE = 250;
/** How often the line of the present moves, in milliseconds. */
const TICK = 5_000;
/** Waiting trials that are listed. */
const MOST_WAITING = 20;

const id = page.experiment.id;
const element = /** @type {HTMLElement} */ (document.getElementById("timeline-chart"));
const find = (/** @type {string} */ name) => /** @type {HTMLElement} */ (document.getElementById(`timeline-${name}`));
/** The window in seconds since the epoch; null: as far as there is something. @type {{begin: number | null, end: number | null}} */
let asked = fromAddress();
/** @type {any} */
let found = null;

function fromAddress() {
  const query = new URL(location.href).searchParams;
  const read = (/** @type {string} */ name) => {
    const at = Date.parse(query.get(name) ?? "");
    return Number.isNaN(at) ? null : at / 1000;
  };
  const [begin, end] = [read("begin"), read("end")];
  return begin !== null && end !== null && begin >= end ? { begin: null, end: null } : { begin, end };
}

function toAddress() {
  const address = new URL(location.href);
  for (const [name, at] of Object.entries(asked)) {
    if (at === null) address.searchParams.delete(name);
    else address.searchParams.set(name, new Date(at * 1000).toISOString());
  }
  history.replaceState(null, "", address);
}

const chart = new TimelineChart(element, {
  moved(begin, end) {
    const [first, last] = found.extent;
    const near = (last - first) * 1e-3;
    asked = { begin: begin <= first + near ? null : begin, end: end >= last - near ? null : end };
    toAddress();
    clearTimeout(moving);
    moving = setTimeout(load, MOVE_PAUSE);
  },
});
/** @type {ReturnType<typeof setTimeout> | undefined} */
let moving;

let loading = false;
let again = false;

async function load() {
  if (loading) {
    again = true;
    return;
  }
  loading = true;
  try {
    const query = new URLSearchParams({ width: String(Math.max(100, Math.min(10_000, Math.round(element.clientWidth)))) });
    for (const [name, at] of Object.entries(asked)) if (at !== null) query.set(name, new Date(at * 1000).toISOString());
    found = await rest("GET", `experiments/${id}/timeline/?${query}`);
    show();
    showError(null);
  } catch (error) {
    showError(error);
    if (mayPass(error)) changed();
  }
  setTimeout(() => {
    loading = false;
    if (again) {
      again = false;
      load();
    }
  }, LOOK_PAUSE / 4);
}

function show() {
  const { runs, waits, rows } = found;
  const empty = runs.id.length === 0 && waits.id.length === 0 && asked.begin === null && asked.end === null;
  find("nothing").hidden = !empty;
  find("tables").hidden = empty;
  element.hidden = empty;
  if (empty) return;
  chart.take(found);
  const attempts = rows.reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + row.runs, 0);
  const idle = waits.end.filter((/** @type {number | null} */ end) => end === null).length;
  element.setAttribute("aria-label", `Timeline: ${attempts} attempts on ${rows.length} GPUs or slots, ${idle} waiting now. The tables below say the same.`);
  const words = [];
  if (found.merged) words.push(`${found.merged.toLocaleString()} attempts are too short to be drawn alone; zoom in to see them.`);
  if (found.rows_left_out) words.push(`${found.rows_left_out.toLocaleString()} more GPUs or slots are not drawn.`);
  if (found.waits_left_out) words.push(`${found.waits_left_out.toLocaleString()} more waits are not drawn; zoom in to see them.`);
  find("note").textContent = words.join(" ");
  tables();
}

function tables() {
  const length = found.window[1] - found.window[0];
  const cell = (/** @type {string} */ text, number = false) => {
    const made = document.createElement("td");
    made.textContent = text;
    if (number) made.className = "number";
    return made;
  };
  find("rows").querySelector("tbody")?.replaceChildren(...found.rows.map((/** @type {any} */ row) => {
    const line = document.createElement("tr");
    line.append(cell(row.machine || "not known"), cell(chart.place(row)), cell(String(row.runs), true),
      cell(`${Math.round(row.busy * 100)} %`, true), cell(duration((1 - row.busy) * length), true));
    return line;
  }));
  const { waits } = found;
  const waiting = waits.id.map((/** @type {string} */ _, /** @type {number} */ index) => index)
    .filter((/** @type {number} */ index) => waits.end[index] === null);
  find("none-waits").hidden = waiting.length > 0;
  const items = waiting.slice(0, MOST_WAITING).map((/** @type {number} */ index) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `/trials/${waits.id[index]}/`;
    link.textContent = `Trial ${waits.sequence_id[index]}`;
    const reason = document.createElement("span");
    showMessage(reason, waits.reason[index], waits.jobs[index]);
    item.append(link, ` for ${duration(found.now - waits.begin[index])}. `, reason);
    return item;
  });
  if (waiting.length > MOST_WAITING) {
    const item = document.createElement("li");
    item.textContent = `and ${waiting.length - MOST_WAITING} more`;
    items.push(item);
  }
  find("waiting").replaceChildren(...items);
}

// --- moving ------------------------------------------------------------------------------------

/** @param {string} how */
function move(how) {
  if (!found) return;
  const [first, last] = found.extent;
  if (how === "all") {
    asked = { begin: null, end: null };
  } else {
    const begin = asked.begin ?? first;
    const end = asked.end ?? last;
    const size = end - begin;
    const wanted = how === "in" ? size / 2 : how === "out" ? Math.min(size * 2, last - first) : size;
    const middle = (begin + end) / 2 + (how === "earlier" ? -size / 3 : how === "later" ? size / 3 : 0);
    const from = Math.max(first, Math.min(middle - wanted / 2, last - wanted));
    const to = from + Math.max(wanted, 0.01);
    asked = { begin: from <= first ? null : from, end: to >= last ? null : to };
  }
  toAddress();
  load();
}

document.getElementById("timeline-window")?.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-move]") : null;
  if (button instanceof HTMLElement) move(button.dataset.move ?? "");
});
element.addEventListener("keydown", (event) => {
  const how = { ArrowLeft: "earlier", ArrowRight: "later", "+": "in", "-": "out", 0: "all" }[event.key];
  if (!how || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  move(how);
});

/** @type {ReturnType<typeof setTimeout> | undefined} */
let looking;
let looked = -LOOK_PAUSE;

function changed() {
  looking ??= setTimeout(() => {
    looking = undefined;
    looked = performance.now();
    load();
  }, Math.max(0, looked + LOOK_PAUSE - performance.now()));
}

load();
setInterval(() => chart.tick(), TICK);
startHead({ heard: (trials) => trials.length && changed(), missed: async () => changed() });
