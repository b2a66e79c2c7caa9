// A count under way: how long it has taken, and Cancel. The server kills a count when nobody waits for it any more.

import { byId, say } from "./dom.js";
import { initial, post } from "./server.js";
import { announce } from "./shell.js";

let underWay = null;

byId("cancel-count").addEventListener("click", () => {
  underWay?.abort();
  announce("The count was cancelled.");
});

/** The answer to a query, or null if it was cancelled. A newer query cancels it too. */
export async function countFrom(release, query) {
  underWay?.abort();
  const mine = (underWay = new AbortController());
  const began = Date.now();
  const show = () => say(byId("counting-text"), passed(Math.round((Date.now() - began) / 1000)));
  const ticking = setInterval(show, 1000);
  show();
  byId("counting").hidden = false;
  try {
    return await post(`/api/releases/${encodeURIComponent(release)}/count`, query, { signal: mine.signal });
  } catch (error) {
    if (error.name === "AbortError") return null;
    throw error;
  } finally {
    clearInterval(ticking);
    if (underWay === mine) {
      underWay = null;
      byId("counting").hidden = true;
    }
  }
}

/** The seconds that have passed, and those that a count may take. */
function passed(seconds) {
  const most = initial.count_timeout;
  return most === null ? `${seconds} s` : `${seconds} of at most ${most} s`;
}
