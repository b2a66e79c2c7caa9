// A draft policy, the questions that go to the server about it, and how far the answer is.

import { byId, el, fill, say, sentence, set } from "./dom.js";
import { areBands } from "./rules.js";
import { isCounting, pause, post, tab } from "./server.js";
import { complain, mark } from "./shell.js";

/** The policy in work: limits, sizes and protection. It goes to the server with every question. */
export class Draft {
  constructor({ limits, solve, protection }) {
    this.limits = copyLimits(limits);
    this.solve = { ...solve };
    this.protection = structuredClone(protection);
    this.sequence = 0;
    this.gesture = { number: 0, target: null, at: 0 };
  }

  /** The question to send. Only a quick one changes the draft: an exact one may arrive late, after a step back. */
  question(exact) {
    this.sequence += 1;
    const gesture = `${tab.id.slice(0, 8)}-${this.gesture.number}`;
    const { limits, solve, protection, sequence } = this;
    return { limits, solve, protection, exact, sequence, gesture, draft: !exact };
  }

  /** Take over limits, sizes and protection from a state of the server. */
  replace({ limits, solve, protection }) {
    this.limits = copyLimits(limits);
    this.solve = { ...solve };
    this.protection = structuredClone(protection);
  }

  /** Changes of the same control in quick succession are one step to undo. */
  noteGesture(event) {
    const { number, target, at } = this.gesture;
    const now = performance.now();
    const goesOn = event?.target === target && now - at < ONE_GESTURE;
    this.gesture = { number: goesOn ? number : number + 1, target: event?.target ?? null, at: now };
  }
}

const ONE_GESTURE = 1000; // milliseconds between changes of one control that belong together

/** A copy of limits. Values and groups may have any name, even "constructor", so the copies have no prototype. */
export function copyLimits(limits) {
  const bare = (named) => Object.assign(Object.create(null), named);
  const [values, groups, levels] = [limits.values, limits.groups, limits.levels].map(bare);
  return { ...limits, values, groups, levels, grouping: structuredClone(limits.grouping) };
}

// User Timing entries say how long a change takes until its answer is on the screen:
// "change-to-redraw": from the input event to after the frame that shows its answer.
// "overtaken-to-redraw": the same for a change that a newer one overtook before it was sent; one answer serves both.
// "answer-to-redraw": the page's own part of it.
const MOST_ENTRIES = 5000;
let entries = 0;

/** Mark a change at the time of its event. */
function markChange(event) {
  const startTime = event?.timeStamp > 0 ? event.timeStamp : performance.now();
  return performance.mark("change", { startTime });
}

/** The answer to these changes, oldest first, is in the document: measure once its frame is painted. */
function measureRedraw(marks, arrived) {
  if (marks.length === 0) return;
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      const end = performance.now();
      performance.measure("answer-to-redraw", { start: arrived, end });
      marks.forEach((mark, at) => {
        const name = at === marks.length - 1 ? "change-to-redraw" : "overtaken-to-redraw";
        performance.measure(name, { start: mark.startTime, end });
      });
      entries += marks.length;
      if (entries > MOST_ENTRIES) forgetEntries();
    };
    port2.postMessage(null);
  });
}

function forgetEntries() {
  performance.clearMarks("change");
  performance.clearMeasures();
  entries = 0;
}

const QUIET = 250; // milliseconds without a change before the exact answer is asked for
const QUIETER = 2000; // after the exact answer, before strata are priced in the background
export const MOST_ROWS = 5_000_000; // up to which this is done without being asked: it reads the table

/**
 * The latest question wins. One quick question goes out at a time; the newest state follows as soon as its answer is
 * there, and the exact question once nothing has changed for a moment.
 */
export class Solving {
  /**
   * `answered(answer)` draws; `failed(error)` shows an error; `asking(exact)` shows that work is going on.
   * `rested()` is called once the exact answer is there and nothing else was asked.
   * `priced(price)` draws the price of strata, where somebody wants it; `price.stale` says that the draft has changed.
   */
  constructor(draft, { answered, failed, asking, rested = () => {}, priced = null, price = null }) {
    Object.assign(this, { draft, answered, failed, asking, rested, priced, price });
    this.pricing = null;
    this.marks = []; // changes that no question covers yet
    this.flying = null;
    this.timer = null;
    addEventListener("pagehide", () => this.#leave());
    document.addEventListener("click", (event) => this.#follow(event));
  }

  /** The draft has changed, because of this event. */
  changed(event) {
    this.marks.push(markChange(event));
    this.draft.noteGesture(event);
    clearTimeout(this.timer);
    this.#dropPrice();
    if (this.flying?.exact) this.#abandon();
    if (this.flying === null) this.#ask(false);
  }

  /** Ask about the draft as it is: for a quick answer, and then for the exact one. */
  refresh() {
    if (this.flying === null) this.#ask(false);
  }

  /** The draft was replaced by another one from the server. */
  replaced() {
    this.marks = [];
    clearTimeout(this.timer);
    if (this.flying !== null) this.#abandon();
    this.marks = [];
    this.#dropPrice();
    this.#ask(false);
  }

  /** Wait until every change has been sent. */
  async flush() {
    while (this.marks.length > 0 || (this.flying && !this.flying.exact)) await pause(20);
  }

  #dropPrice() {
    this.pricing?.abort();
    this.pricing = null;
    if (this.price && !this.price.stale) this.priced?.((this.price = { ...this.price, stale: true }));
  }

  /** Ask for the price of strata, which takes a while. */
  async #askPrice() {
    const stop = (this.pricing = new AbortController());
    await pause(QUIETER);
    if (this.pricing !== stop) return;
    try {
      const price = await post("/api/strata-figures", {}, { signal: stop.signal });
      if (this.pricing === stop) this.priced((this.price = price));
    } catch (error) {
      if (this.pricing === stop && error.name !== "AbortError" && error.status >= 500) this.failed(error);
    }
  }

  async #ask(exact) {
    const flight = { exact, marks: this.marks, stop: new AbortController() };
    this.marks = [];
    this.flying = flight;
    this.asking(exact);
    let answer = null;
    let fault = null;
    try {
      answer = await post("/api/explore", this.draft.question(exact), { signal: flight.stop.signal });
    } catch (error) {
      fault = error;
    }
    if (this.flying !== flight) return; // given up for a newer one
    this.flying = null;
    const overtaken = this.marks.length > 0;
    if (fault === null) {
      const arrived = performance.now();
      this.answered(answer, overtaken);
      measureRedraw(flight.marks, arrived);
    } else if (fault.kind !== "abandoned") {
      this.failed(fault);
    }
    if (overtaken) return this.#ask(false);
    if (!exact) return (this.timer = setTimeout(() => this.#ask(true), QUIET));
    this.rested();
    const wanted = this.priced && this.price?.stale !== false && this.draft.protection.strata !== "none";
    if (wanted && answer?.setting) this.#askPrice();
  }

  #abandon() {
    this.flying.stop.abort();
    this.marks = [...this.flying.marks, ...this.marks];
    this.flying = null;
  }

  /** The next page must know the last change: send it before the browser follows a link. */
  async #follow(event) {
    const link = event.target.closest?.("a[href^='/']");
    if (
      this.marks.length === 0 ||
      !link ||
      link.target ||
      event.ctrlKey ||
      event.metaKey ||
      event.shiftKey ||
      event.button !== 0
    )
      return;
    event.preventDefault();
    await this.#leave();
    this.marks = [];
    location.assign(link.href);
  }

  /** Somebody leaves the page: what was not sent yet still becomes the draft. */
  async #leave() {
    if (this.marks.length > 0)
      await post("/api/explore", this.draft.question(false), { keepalive: true }).catch(() => {});
  }
}

const STATES = {
  exact: "exact",
  refining: "quick answer, refining…",
  solving: "solving…",
  looking: "looking for a setting…",
  problem: "cannot be kept",
  undecided: "not found in time",
  stale: "an older draft",
};

/** The state of the answer in a few words; `exact` says whether the page shows the exact answer. */
function showState(state, exact = false) {
  const chip = byId("exact");
  set(chip, "data-state", state);
  set(chip, "data-exact", exact);
  say(chip, STATES[state]);
}

/** A question goes out. The words stay where possible: they would flicker while a slider moves. */
export function showAsking(exact) {
  const chip = byId("exact");
  const state = chip.dataset.state ?? "solving";
  if (exact && chip.dataset.exact === "true") return; // the quick answer was exact already; only other methods are missing
  showState(state === "exact" || state === "undecided" ? "refining" : state);
}

/** Show the state of an answer, and its problem, if there certainly is one. */
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

/** Show what the server refused outright, such as a limit that is not a number. */
function showRefusal(error) {
  showState("problem", true);
  showProblem({ message: error.message, hint: error.hint, offer: null });
}

/** Show in the header whether the limits can be kept, once that is certain. */
export function markLimits(answer) {
  if (answer.status !== "undecided") mark("limits", answer.setting ? "done" : "cannot be kept");
}

/** Why there is no setting, the offer to fix it, and what else can be done about it. */
export function showProblem(problem, take, below = OLDER_FIGURES, more = null) {
  const host = byId("problem");
  const same = JSON.stringify(problem) === host.dataset.problem;
  host.hidden = problem === null || problem === undefined;
  if (same) return;
  host.dataset.problem = JSON.stringify(problem);
  if (!problem) return fill(host);
  const offer = problem.offer ?? null;
  fill(
    host,
    messageParts(problem.message),
    offer ? el("p", {}, offer.text) : problem.hint ? el("p", {}, problem.hint) : null,
    below ? el("p", { class: "hint" }, below) : null,
    offer || more
      ? el(
          "div",
          { class: "buttons" },
          offer
            ? el(
                "button",
                { type: "button", class: "primary", "data-test": "offer", click: (event) => take(offer, event) },
                offerTitle(offer),
              )
            : null,
          more,
        )
      : null,
  );
}

/** A message: its first line, and the details that follow. */
export function messageParts(message) {
  const [first, ...lines] = message.split("\n");
  const details = lines.length > 0 ? el("ul", {}, lines.map((line) => el("li", {}, line.trim()))) : null;
  return [el("p", {}, el("strong", {}, sentence(first))), details];
}

const OLDER_FIGURES = "The figures below are for the last limits that could be kept.";

/** What the button says that takes an offer. */
export function offerTitle({ values, groups, ungrouped, allow_absent: absent }) {
  if (ungrouped.length > 0) return "Set them apart: in no group";
  if (absent) return "Let them stay";
  const limits = Object.keys(values).length + Object.keys(groups).length;
  return limits > 0 ? "Use the nearest feasible limits" : "Allow larger buckets";
}

/** Change a draft as an offer says. */
export function takeOffer(draft, { values, groups, ungrouped, allow_absent: absent, solve }) {
  if (areBands(draft.limits.grouping)) for (const name of Object.keys(values)) delete draft.limits.groups[name];
  Object.assign(draft.limits.values, values);
  Object.assign(draft.limits.groups, groups);
  draft.limits.grouping.ungrouped.push(...ungrouped);
  if (absent) draft.limits.allow_absent = true;
  if (solve) Object.assign(draft.solve, solve);
}

/** A question failed: wait for new counts, show the refusal, or report an error. */
export function showFailure(error) {
  if (error.kind === "stale") return showState("stale"); // the page says more
  if (isCounting(error)) return location.reload(); // the table changed: the new page waits for its counts
  if (error.status === 0 || error.status >= 500) return complain(error);
  showRefusal(error);
}
