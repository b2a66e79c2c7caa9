// Long work of the server: its stages, how far it is, and the way to stop it.

import { get, post } from "./api.js";
import { el, fill, say } from "./dom.js";
import { count, seconds } from "./format.js";
import { pause } from "./state.js";

const OFTEN = 250; // milliseconds between looks

/** Follow a task until it ends, showing it in `host`. Gives its result; throws its error; null if it was cancelled. */
export async function follow(id, host, title) {
  const view = shown(id, title);
  fill(host, view.node);
  for (;;) {
    const task = await get(`/api/tasks/${encodeURIComponent(id)}`);
    view.show(task);
    if (task.status === "running") {
      await pause(OFTEN);
      continue;
    }
    fill(host);
    if (task.status === "failed") throw Object.assign(new Error(task.error?.message ?? "It failed."), task.error);
    return task.status === "done" ? task.result : null;
  }
}

function shown(id, title) {
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
    const known = task.total !== null && task.total !== undefined && task.total > 0;
    if (known) bar.value = Math.min(1, task.done / task.total);
    else bar.removeAttribute("value");
    say(
      far,
      [
        known ? `${count(task.done)} of ${count(task.total)} ${task.unit ?? ""}` : "",
        task.seconds >= 1 ? seconds(task.seconds) : "",
      ]
        .filter(Boolean)
        .join(", "),
    );
    const names = task.stages ?? [];
    while (stages.children.length < names.length) stages.append(el("li", {}, names[stages.children.length]));
    [...stages.children].forEach((item, at) => item.classList.toggle("now", at === names.length - 1));
    const told = (task.sentences ?? []).join("\n");
    if (sentences.dataset.told !== told)
      fill(
        sentences,
        (task.sentences ?? []).map((sentence) => el("p", {}, sentence)),
      );
    sentences.dataset.told = told;
  }
}

/** The running task of one of these kinds that the server had when the page was made, or null. */
export async function running(ids, kinds) {
  for (const id of ids) {
    const task = await get(`/api/tasks/${encodeURIComponent(id)}`).catch(() => null);
    if (task?.status === "running" && kinds.includes(task.kind)) return task;
  }
  return null;
}
