// Telling people: what went wrong on top of the page, what happened by voice.

import { byId, el } from "./dom.js";
import { sentence } from "./format.js";

/** Something that went wrong, with what to do; it stays until closed. */
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

/** Take away what was complained about. */
export const clear = () => byId("notices").replaceChildren();

/** Said to screen readers, not shown. */
export function announce(sentence) {
  const announcer = byId("announcer");
  if (announcer.textContent !== sentence) announcer.textContent = sentence;
}
