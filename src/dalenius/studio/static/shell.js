// What every page has: messages, the steps, the table in use, the progress of a long task, and the way out.

import { byId, count, el, fill, named, plural, say, seconds, sentence } from "./dom.js";
import { chosenTable, get, pause, post } from "./server.js";

/** Show what went wrong and what to do about it. The message stays until it is closed. */
export function complain(error) {
  const notice = el(
    "div",
    { class: "notice bad", "data-test": "notice", "data-kind": error.kind ?? null },
    el(
      "button",
      { type: "button", class: "quiet small close", "aria-label": "Close this message", click: () => notice.remove() },
      "✕",
    ),
    el("p", {}, el("strong", {}, sentence(error.message))),
    error.hint ? el("p", {}, error.hint) : null,
  );
  byId("notices").replaceChildren(notice);
}

/** Remove the message. */
export const clear = () => byId("notices").replaceChildren();

/** Tell screen readers; nothing is shown. */
export function announce(words) {
  const announcer = byId("announcer");
  if (announcer.textContent !== words) announcer.textContent = words;
}

/** Show the state of a step. */
export function mark(step, state) {
  const link = document.querySelector(`[data-step="${step}"]`);
  if (link === null || link.dataset.state === state) return;
  link.dataset.state = state;
  say(link.querySelector(".step-state"), state);
}

/** The page listens now: enable the controls that had to wait for it. */
export function ready() {
  for (const node of document.querySelectorAll("[data-until-ready]")) {
    node.disabled = false;
    node.removeAttribute("data-until-ready");
  }
}

/** Show which table is in use. */
export function showTable(state) {
  const table = chosenTable(state);
  const rows = table?.rows ?? null;
  fill(
    byId("in-use"),
    table ? [el("b", {}, named(table.name, 40)), rows === null ? "" : `, ${plural(rows, "record")}`] : "no table yet",
  );
}

async function quit() {
  try {
    await post("/api/quit");
  } catch (error) {
    if (error.kind !== "gone") return complain(error);
  }
  document.querySelector("nav")?.remove();
  byId("quit").remove();
  fill(
    byId("main"),
    el(
      "section",
      { class: "panel narrow", "data-test": "stopped" },
      el("h1", {}, "Studio has stopped"),
      el("p", {}, "You can close this page."),
    ),
  );
}

byId("quit").addEventListener("click", () => byId("quit-dialog").showModal());
byId("quit-dialog").addEventListener("close", () => {
  if (byId("quit-dialog").returnValue === "quit") quit();
});
byId("quit").disabled = false;

const POLL = 250; // milliseconds between questions about a task

/** Tasks that the page shows by itself. */
export const followed = new Set();

/** Show a task in `host` until it ends. Returns its result, or null if it was cancelled; throws its error. */
export async function follow(id, host, title) {
  followed.add(id);
  const view = taskView(id, title);
  fill(host, view.node);
  for (;;) {
    const task = await get(`/api/tasks/${encodeURIComponent(id)}`);
    view.show(task);
    if (task.status === "running") {
      await pause(POLL);
      continue;
    }
    fill(host);
    if (task.status === "failed") throw Object.assign(new Error(task.error?.message ?? "It failed."), task.error);
    return task.status === "done" ? task.result : null;
  }
}

function taskView(id, title) {
  const stage = el("b", {}, title);
  const far = el("span", { class: "muted" });
  const bar = el("progress", { "aria-label": title });
  const stages = el("ol", { class: "stages" });
  const sentences = el("div", { class: "hint" });
  const stop = el(
    "button",
    {
      type: "button",
      class: "small",
      "data-test": "cancel",
      click: () => {
        stop.disabled = true;
        post(`/api/tasks/${encodeURIComponent(id)}/cancel`).catch(() => {});
      },
    },
    "Cancel",
  );
  const node = el(
    "div",
    { class: "task", "data-test": "progress", role: "group", "aria-label": title },
    el("div", { class: "task-line" }, el("span", { role: "status" }, stage), far, stop), // Cancel stays where it is
    bar,
    stages,
    sentences,
  );
  return { node, show };

  function show(task) {
    say(stage, task.stage ?? title);
    const hasTotal = task.total !== null && task.total !== undefined && task.total > 0;
    if (hasTotal) bar.value = Math.min(1, task.done / task.total);
    else bar.removeAttribute("value");
    say(
      far,
      [
        hasTotal ? `${count(task.done)} of ${count(task.total)} ${task.unit ?? ""}` : "",
        task.seconds >= 1 ? seconds(task.seconds) : "",
      ]
        .filter(Boolean)
        .join(", "),
    );
    const names = task.stages ?? [];
    while (stages.children.length < names.length) stages.append(el("li", {}, names[stages.children.length]));
    [...stages.children].forEach((item, at) => item.classList.toggle("now", at === names.length - 1));
    const text = (task.sentences ?? []).join("\n");
    if (sentences.dataset.text !== text)
      fill(
        sentences,
        (task.sentences ?? []).map((sentence) => el("p", {}, sentence)),
      );
    sentences.dataset.text = text;
  }
}

/** A task of one of these kinds, about this release if one is given, that was running when the page was made. */
export const runningTask = (tasks, kinds, about = null) =>
  tasks.find((task) => kinds.includes(task.kind) && (about === null || task.about === about)) ?? null;
