// How far the answer is (solving, quick, exact), and what stands in the way of limits that cannot be kept.

import { byId, el, fill, say, set } from "./dom.js";
import { sentence } from "./format.js";
import { complain } from "./notices.js";
import { mark } from "./shell.js";
import { isCounting } from "./state.js";

const STATES = {
  exact: "exact",
  refining: "quick answer, refining…",
  solving: "solving…",
  looking: "looking for a setting…",
  problem: "cannot be kept",
  undecided: "not found in time",
};

/** The state of the page, discreetly; `exact` says whether what is shown is the exact answer. */
function showState(state, exact = false) {
  const chip = byId("exact");
  set(chip, "data-state", state);
  set(chip, "data-exact", exact);
  say(chip, STATES[state]);
}

/** A question goes out. The words stay where they can, or they would flicker while a hand is on the slider. */
export function showAsking(exact) {
  const chip = byId("exact");
  const state = chip.dataset.state ?? "solving";
  if (exact && chip.dataset.exact === "true") return; // the quick answer was exact already; peers are still to come
  showState(state === "exact" || state === "undecided" ? "refining" : state);
}

/** Show how far an answer is, and its problem, if it has one that is certain. */
export function showStanding(answer, take) {
  const open = answer.status === "undecided";
  const certain = answer.problem && (!open || answer.exact) ? answer.problem : null;
  showProblem(certain, take);
  const state = answer.problem
    ? open
      ? answer.exact
        ? "undecided"
        : "looking"
      : "problem"
    : answer.exact
      ? "exact"
      : "refining";
  showState(state, answer.exact);
}

/** What the server refused outright, such as a limit that is no number. */
function showRefusal(error) {
  showState("problem", true);
  showProblem({ message: error.message, hint: error.hint, offer: null });
}

/** Say in the header whether the limits can be kept, once that is certain. */
export function markLimits(answer) {
  if (answer.status !== "undecided") mark("limits", answer.setting ? "done" : "cannot be kept");
}

/** Why there is no setting, and what is offered instead. */
function showProblem(problem, take) {
  const host = byId("problem");
  const same = JSON.stringify(problem) === host.dataset.shown;
  host.hidden = problem === null || problem === undefined;
  if (same) return;
  host.dataset.shown = JSON.stringify(problem);
  if (!problem) return fill(host);
  const offer = problem.offer ?? null;
  const title =
    Object.keys(offer?.values ?? {}).length > 0 ? "Use the nearest feasible limits" : "Allow larger buckets";
  fill(
    host,
    el("p", {}, el("strong", {}, sentence(problem.message))),
    offer ? el("p", {}, offer.text) : problem.hint ? el("p", {}, problem.hint) : null,
    el("p", { class: "hint" }, "What is below tells of the last limits that could be kept."),
    offer
      ? el(
          "div",
          { class: "buttons" },
          el(
            "button",
            { type: "button", class: "primary", "data-test": "offer", click: (event) => take(offer, event) },
            title,
          ),
        )
      : null,
  );
}

/** A question got no answer: wait for new counts, show what is refused, or say that something is wrong. */
export function failed(error) {
  if (isCounting(error)) return location.reload(); // the table changed: the page waits for its counts
  if (error.status === 0 || error.status >= 500) return complain(error);
  showRefusal(error);
}
