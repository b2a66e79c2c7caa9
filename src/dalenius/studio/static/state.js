// What the server knew when the page was made, and what it knows now.

import { get } from "./api.js";

/** The state that came with the page. */
export const initial = JSON.parse(document.getElementById("state").textContent);

/** The state as it is now. */
export const fresh = () => get("/api/state");

/** The table in work, or null. */
export const chosenTable = (state) => state.tables.find((table) => table.id === state.table) ?? null;

/** Wait until the sensitive column is counted; throw what keeps it from being. */
export async function untilCounted(state) {
  for (let now = state; now.counted?.status !== "ready"; now = await fresh()) {
    const fault = now.counted?.status === "failed" ? now.counted.error : chosenTable(now)?.error;
    if (fault) throw Object.assign(new Error(fault.message), fault);
    await pause(250);
  }
}

/** Whether an answer has to wait for the table to be read, or counted, again. */
export const isCounting = (error) => error.kind === "counting" || error.kind === "not-ready";

/** Wait so many milliseconds. */
export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
