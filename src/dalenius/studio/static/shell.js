// What every page has: the table in work, the steps, and the way out.

import { post } from "./api.js";
import { byId, el, fill, named, say } from "./dom.js";
import { plural } from "./format.js";
import { complain } from "./notices.js";
import { chosenTable } from "./state.js";

/** Say how far a step is. */
export function mark(step, howFar) {
  const link = document.querySelector(`[data-step="${step}"]`);
  if (link === null || link.dataset.state === howFar) return;
  link.dataset.state = howFar;
  say(link.querySelector(".step-state"), howFar);
}

/** The page listens from now on: what could not be pressed until then can be. */
export function ready() {
  for (const node of document.querySelectorAll("[data-until-ready]")) {
    node.disabled = false;
    node.removeAttribute("data-until-ready");
  }
}

/** Say which table is in work. */
export function showTable(state) {
  const table = chosenTable(state);
  const rows = table?.rows ?? null;
  fill(
    byId("in-work"),
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
