// The command lines that do the same, to be copied.

import { el } from "./dom.js";

/** A word as a shell reads it. */
export const quoted = (word) =>
  /^[\w@%+=:,./-]+$/.test(word) && !word.startsWith("-") ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** A command with a button that copies it. */
export function command(text) {
  const button = el("button", { type: "button", class: "small", click: copy }, "Copy");
  return el("div", { class: "command" }, el("code", { tabindex: "0", "data-test": "command" }, text), button);

  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it by hand";
    }
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  }
}
