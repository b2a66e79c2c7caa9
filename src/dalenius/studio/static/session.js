// What outlives a page: steps to undo and redo, other tabs, what is not saved, and work that is running.

import { byId, capital, el, fill, say, seconds } from "./dom.js";
import { fresh, get, initial, pause, post, renameTab, tab } from "./server.js";
import { announce, complain, followed } from "./shell.js";

const PARTS = { roles: "roles", limits: "limits", solve: "bucket sizes", protection: "protection" };
const KEYS = { undo: "Ctrl+Z", redo: "Ctrl+Shift+Z" };
const WORK = {
  "strata-price": "Pricing strata",
  "people-plan": "Making buckets of people",
  publish: "Publishing",
  verify: "Verifying",
  audit: "Auditing",
  report: "Writing the report",
  crosstab: "Making a cross-tab",
  completed: "Drawing completed tables",
};

let state = initial; // the draft that the page shows
let page = { show: null, flush: async () => {}, ownsRoles: false };

/**
 * How this page shows another draft: `show(state)`. `flush()` sends what was not sent yet. A page that does not show
 * roles by itself is loaded again when they change.
 */
export function onDraft(show, { flush = async () => {}, ownsRoles = false } = {}) {
  page = { show, flush, ownsRoles };
}

function showHistory({ undo, redo, saved }) {
  for (const [name, part] of Object.entries({ undo, redo })) {
    const button = byId(name);
    button.disabled = part === null;
    button.title = part === null ? `Nothing to ${name}` : `${capital(name)}: ${PARTS[part]} (${KEYS[name]})`;
  }
  byId("not-saved").hidden = saved;
  byId("quit-unsaved").hidden = saved;
}

async function step(name) {
  if (byId(name).disabled) return;
  try {
    await page.flush();
    const { history } = await post(`/api/${name}`);
    await take();
    const [done, back] = name === "undo" ? ["Undone", history.redo] : ["Redone", history.undo];
    announce(`${done}: ${PARTS[back] ?? "the draft"}.`);
  } catch (error) {
    if (error.kind !== "stale") complain(error);
  }
}

/** Show the draft as the server has it. */
async function take() {
  const now = await fresh();
  const ofTable = ({ roles, null_value, missing, not_applicable }) =>
    JSON.stringify([roles, null_value, missing, not_applicable]);
  const same = ofTable(now) === ofTable(state);
  const needsPage = now.table !== state.table || (!same && !page.ownsRoles);
  [tab.shows, state] = [now.history.number, now];
  showHistory(now.history);
  fill(byId("stale"));
  if (needsPage || page.show === null) location.reload();
  else page.show(now);
}

function showStale() {
  const showsDraft = !["query", "figures", "crosstab", "completed"].includes(document.body.dataset.page);
  if (!showsDraft || byId("stale").childElementCount > 0) return;
  const button = el("button", { type: "button", class: "primary", "data-test": "take-newer" }, "Show the newer draft");
  button.addEventListener("click", () => take().catch(complain));
  fill(
    byId("stale"),
    el(
      "div",
      { class: "notice warn", "data-test": "stale" },
      el(
        "p",
        {},
        el("strong", {}, "Another tab has changed the draft. "),
        "This page shows an older one, and cannot change it.",
      ),
      el("div", { class: "buttons" }, button),
    ),
  );
}

// Other tabs of this browser. Another browser is noticed when this tab is looked at again.
const channel = new BroadcastChannel("dalenius-studio");
const here = crypto.randomUUID(); // this page
const others = new Set();
const call = (kind, more = {}) => channel.postMessage({ kind, from: here, tab: tab.id, ...more });

channel.addEventListener("message", ({ data }) => {
  if (data.kind === "bye") others.delete(data.from);
  else others.add(data.from);
  if (data.kind === "hello") call("here");
  if (data.kind === "here" && data.tab === tab.id) renameTab();
  if (data.kind === "changed" && data.number > tab.shows) showStale();
  byId("other-tab").hidden = others.size === 0;
});
addEventListener("pagehide", () => call("bye"));
addEventListener("pageshow", (event) => event.persisted && call("hello"));
document.addEventListener("visibilitychange", async () => {
  if (document.visibilityState !== "visible") return;
  const { history } = await get("/api/history").catch(() => ({}));
  if (history?.stale) showStale();
});

const rows = new Map(); // id of a task -> its line

/** Show work that the page does not show by itself, until it ends. */
async function watch(tasks) {
  for (const { id, kind } of tasks) {
    if (rows.has(id) || followed.has(id)) continue;
    const line = el("span", { "data-test": "running-words" }, `${WORK[kind]}…`);
    const stop = el(
      "button",
      { type: "button", class: "small", "data-test": "running-cancel", "aria-label": `Cancel: ${WORK[kind]}` },
      "Cancel",
    );
    stop.addEventListener("click", () => {
      stop.disabled = true;
      post(`/api/tasks/${encodeURIComponent(id)}/cancel`).catch(complain);
    });
    const spinner = el("span", { class: "spinner", "aria-hidden": "true" });
    const row = el("span", { class: "running", "data-test": "running", "data-kind": kind }, spinner, line, stop);
    rows.set(id, row);
    byId("running").append(row);
    untilOver(id, kind, line).finally(() => row.remove());
  }
}

async function untilOver(id, kind, line) {
  for (;;) {
    const task = await get(`/api/tasks/${encodeURIComponent(id)}`).catch(() => null);
    if (task?.status !== "running" || followed.has(id)) {
      if (task?.status === "done" && !followed.has(id)) announce(`${WORK[kind]}: done.`);
      return;
    }
    say(line, `${WORK[kind]}${task.stage ? `: ${task.stage.toLowerCase()}` : ""}, ${seconds(task.seconds)}`);
    await pause(500);
  }
}

/** A report is made when somebody opens it, which takes a while. */
document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("a[href^='/releases/'], a[href='/job.toml']");
  if (!link) return;
  await pause(500);
  const now = await fresh().catch(() => null);
  if (now === null) return;
  watch(now.tasks);
  if (!now.history.stale) showHistory(now.history);
});

tab.refused = showStale;
tab.changed = (history) => {
  showHistory(history);
  call("changed", { number: history.number });
};
byId("undo").addEventListener("click", () => step("undo"));
byId("redo").addEventListener("click", () => step("redo"));
document.addEventListener("keydown", (event) => {
  const text = event.target.closest?.("input:is([type=text], [type=search], [type=date]), textarea");
  if (text || !(event.ctrlKey || event.metaKey) || event.altKey) return; // a field undoes what was typed in it
  const name = { z: event.shiftKey ? "redo" : "undo", y: "redo" }[event.key.toLowerCase()];
  if (name === undefined) return;
  event.preventDefault();
  step(name);
});
showHistory(initial.history);
call("hello");
setTimeout(() => watch(initial.tasks), 50); // the page itself goes first
