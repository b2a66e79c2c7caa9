// Latest wins: one quick question at a time, the newest state as soon as the last answer is there, and the exact answer
// once nothing has changed for a moment.

import { post } from "./api.js";
import * as timing from "./timing.js";

const QUIET = 250; // milliseconds without a change before the exact answer is asked for

export class Solving {
  /** `answered(answer)` draws; `failed(error)` complains; `asking(exact)` says that work is going on. */
  constructor(draft, { answered, failed, asking }) {
    Object.assign(this, { draft, answered, failed, asking });
    this.marks = []; // changes that no question has taken along yet
    this.flying = null;
    this.timer = null;
    addEventListener("pagehide", () => this.#leave());
    document.addEventListener("click", (event) => this.#follow(event));
  }

  /** The draft has changed, because of this event. */
  changed(event) {
    this.marks.push(timing.changed(event));
    clearTimeout(this.timer);
    if (this.flying?.exact) this.#abandon();
    if (this.flying === null) this.#ask(false);
  }

  /** Ask about the draft as it is: for a quick answer, and then for the exact one. */
  refresh() {
    if (this.flying === null) this.#ask(false);
  }

  async #ask(exact) {
    const question = { exact, marks: this.marks, stop: new AbortController() };
    this.marks = [];
    this.flying = question;
    this.asking(exact);
    let answer = null;
    let fault = null;
    try {
      answer = await post("/api/explore", this.draft.question(exact), { signal: question.stop.signal });
    } catch (error) {
      fault = error;
    }
    if (this.flying !== question) return; // given up for a newer one
    this.flying = null;
    const overtaken = this.marks.length > 0;
    if (fault === null) {
      const arrived = performance.now();
      this.answered(answer, overtaken);
      timing.redrawn(question.marks, arrived);
    } else if (fault.kind !== "abandoned") {
      this.failed(fault);
    }
    if (overtaken) this.#ask(false);
    else if (!exact) this.timer = setTimeout(() => this.#ask(true), QUIET);
  }

  #abandon() {
    this.flying.stop.abort();
    this.marks = [...this.flying.marks, ...this.marks];
    this.flying = null;
  }

  /** The next page must know of the last change: send what was not sent yet before a link is followed. */
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

  /** The page is left: what was not sent yet becomes the draft all the same. */
  async #leave() {
    if (this.marks.length > 0)
      await post("/api/explore", this.draft.question(false), { keepalive: true }).catch(() => {});
  }
}
