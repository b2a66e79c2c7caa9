// Talking to the server, which runs on this computer: calls, the state of the session, and files to send.

import { byId, bytes, say } from "./dom.js";

/** The server's refusal, in its own words. */
class Refusal extends Error {
  constructor(status, { kind = "internal", message = "Studio did not understand the answer.", hint = null } = {}) {
    super(message);
    this.status = status;
    this.kind = kind;
    this.hint = hint;
  }
}

/** The state that came with the page: what the server knew when it made the page. */
export const initial = JSON.parse(document.getElementById("state").textContent);

/**
 * This tab, and the number of the draft that it shows. The server refuses to change a draft that the tab has not seen.
 * `changed(history)` is called when the tab has changed the draft, `refused()` when it shows an older one.
 */
export const tab = { id: ownId(), shows: initial.history.number, changed: () => {}, refused: () => {} };

/** The same after a reload. */
function ownId() {
  const id = sessionStorage.getItem("studio-tab") ?? crypto.randomUUID();
  sessionStorage.setItem("studio-tab", id);
  return id;
}

/** A tab that was duplicated has the other's name: it needs one of its own. */
export function renameTab() {
  tab.id = crypto.randomUUID();
  sessionStorage.setItem("studio-tab", tab.id);
}

async function call(method, path, body, options = {}) {
  const headers = { Accept: "application/json", "Studio-Tab": tab.id, "Studio-Draft": String(tab.shows) };
  const isFile = body instanceof Blob;
  if (method !== "GET") headers["Content-Type"] = isFile ? "application/octet-stream" : "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: method === "GET" ? undefined : isFile ? body : JSON.stringify(body ?? {}),
      credentials: "same-origin",
      cache: "no-store",
      ...options,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, {
      kind: "gone",
      message: "Studio is not responding.",
      hint: "Is it still running? Start it again and open the address it prints.",
    });
  }
  const answer = await response.json().catch(() => ({}));
  if (answer.error?.kind === "stale") tab.refused();
  if (!response.ok) throw new Refusal(response.status, answer.error);
  if (method !== "GET" && answer.history) {
    tab.shows = Math.max(tab.shows, answer.history.number);
    tab.changed(answer.history);
  }
  return answer;
}

export const get = (path) => call("GET", path);
export const post = (path, body, options) => call("POST", path, body, options);
export const remove = (path) => call("DELETE", path);

/** A file from the server, as text. */
export async function text(path) {
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store" });
  if (!response.ok) throw new Refusal(response.status);
  return response.text();
}

/** Why a file did not arrive. A refusal while it is being sent ends the connection, and its words may be lost. */
async function uploadFailure() {
  try {
    await get("/api/state");
  } catch {
    return new Refusal(0, { kind: "gone", message: "The file could not be sent.", hint: "Is Studio still running?" });
  }
  return new Refusal(0, {
    kind: "not-taken",
    message: "Studio did not accept the file.",
    hint: "The file may be too large, or there may be no room on the disk. You can start Studio with it instead: dalenius studio TABLE.",
  });
}

/** Send a file, and report how much of it has gone: only XMLHttpRequest knows. */
function upload(file, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/tables?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) =>
      progress(event.loaded, event.lengthComputable ? event.total : file.size),
    );
    request.addEventListener("load", () => {
      if (request.status < 300) resolve(request.response);
      else reject(new Refusal(request.status, request.response?.error));
    });
    request.addEventListener("error", () => uploadFailure().then(reject));
    request.send(file);
  });
}

/** The state as it is now. */
export const fresh = () => get("/api/state");

/** The table in use, or null. */
export const chosenTable = (state) => state.tables.find((table) => table.id === state.table) ?? null;

/** The state in which the sensitive column is counted; throws the error if it cannot be. */
export async function untilCounted(state) {
  let now = state;
  for (; now.counted?.status !== "ready"; now = await fresh()) {
    const fault = now.counted?.status === "failed" ? now.counted.error : chosenTable(now)?.error;
    if (fault) throw Object.assign(new Error(fault.message), fault);
    await pause(250);
  }
  return now;
}

/** Whether an answer has to wait for the table to be read, or counted, again. */
export const isCounting = (error) => error.kind === "counting" || error.kind === "not-ready";

/** Wait this many milliseconds. */
export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Accept files that are dropped on the page, or chosen. `sent(id)` is called when a file has arrived, `failed(error)`
 * when it has not. Files above `most` bytes are not sent.
 */
export function acceptFiles(most, sent, failed) {
  const zone = byId("drop");
  let inside = 0; // dragenter and dragleave also come from the zone's children
  const over = (by) => {
    inside = Math.max(0, inside + by);
    zone.classList.toggle("over", inside > 0);
  };
  zone.addEventListener("dragenter", (event) => {
    event.preventDefault();
    over(1);
  });
  zone.addEventListener("dragleave", () => over(-1));
  for (const target of [zone, document]) target.addEventListener("dragover", (event) => event.preventDefault());
  // A near miss must not open the file in the place of the page.
  document.addEventListener("drop", (event) => event.preventDefault());
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    inside = 0;
    over(0);
    if (event.dataTransfer.files.length > 0) send(event.dataTransfer.files[0]);
  });
  byId("file").addEventListener("change", sendChosen);
  sendChosen(); // a file may have been chosen before this script was loaded

  function sendChosen() {
    const [file] = byId("file").files;
    byId("file").value = "";
    if (file) send(file);
  }

  async function send(file) {
    if (file.size > most) {
      return failed({
        kind: "too-large",
        message: `The file has ${bytes(file.size)}. You can drop in at most ${bytes(most)}.`,
        hint: "You can start Studio with it instead: dalenius studio TABLE.",
      });
    }
    const box = byId("upload-progress");
    box.hidden = false;
    try {
      const { id } = await upload(file, (done, total) => {
        box.querySelector("progress").value = total ? done / total : 0;
        say(byId("upload-text"), `${bytes(done)} of ${bytes(total)}`);
      });
      sent(id);
    } catch (error) {
      failed(error);
    } finally {
      box.hidden = true;
    }
  }
}
