// What both pages of analyses need: the release and why it may be refused, and the task that does the work.

import { byId, el, fill, sentence } from "./dom.js";
import { get, initial, post } from "./server.js";
import { clear, complain, follow, runningTask } from "./shell.js";

/** A refusal in its own words. */
export function refusal({ message, hint }, hook = "query-error") {
  return el(
    "div",
    { class: "notice bad", "data-test": hook },
    el("p", {}, el("strong", {}, sentence(message))),
    hint ? el("p", {}, hint) : null,
  );
}

/**
 * The page of one kind of analysis. `show(about)` gets what is known of the release, `question()` gives what to ask,
 * and `answer(result)` gets the result.
 */
export function analysisPage(kind, title, { show, question, answer }) {
  let about = null;
  let at = 0; // releases that were opened
  const address = (what) => `/api/releases/${encodeURIComponent(byId("release").value)}/${what}`;
  byId("release").addEventListener("change", open);
  byId("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  const running = runningTask(initial.tasks, [kind]);
  if (running !== null) byId("release").value = running.about;
  open().then(() => running !== null && wait(running.id));

  async function open() {
    clear();
    const mine = (at += 1);
    byId("ask").disabled = true;
    fill(byId("query-problem"));
    try {
      const got = await get(address("analysis"));
      if (mine !== at) return; // another release was chosen meanwhile
      about = got;
    } catch (error) {
      return complain(error);
    }
    const reasons = Object.values(about.refused);
    const missing = about.missing[kind];
    const refused = reasons.every((reason) => reason !== null) ? reasons[0] : missing;
    fill(byId("refused"), refused ? refusal(refused, "refusal") : null);
    byId("ask-form").classList.toggle("refused", Boolean(refused));
    show(about);
    byId("ask").disabled = Boolean(refused);
  }

  async function ask() {
    if (byId("ask").disabled) return;
    byId("ask").disabled = true;
    fill(byId("query-problem"));
    try {
      await wait((await post(address(kind), question())).task);
    } catch (error) {
      fail(error);
    }
    byId("ask").disabled = false;
  }

  async function wait(task) {
    byId("ask").disabled = true;
    const mine = at;
    try {
      const result = await follow(task, byId("work"), title);
      if (mine !== at) return;
      if (result === null) fill(byId("query-problem"), el("p", { class: "muted" }, "It was cancelled. What was learned is gone with it."));
      else answer(result);
    } catch (error) {
      if (mine === at) fail(error);
    }
    byId("ask").disabled = false;
  }

  function fail(error) {
    fill(byId("work"));
    if (error.status === 0) return complain(error);
    fill(byId("query-problem"), refusal(error));
  }
}

/** How long it took, and why the next question is quicker. */
export function tookWords({ seconds: took, learned_before: known }, seconds) {
  if (known) return `It took ${seconds(took)}: what the release tells was learned before.`;
  return `It took ${seconds(took)}, with learning. The next question about the same sensitive columns needs no learning.`;
}
