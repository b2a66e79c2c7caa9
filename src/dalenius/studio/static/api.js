// Talking to the server, which is on this computer.

/** What the server refused, in its own words. */
class Refused extends Error {
  constructor(status, { kind = "internal", message = "Studio did not understand the answer.", hint = null } = {}) {
    super(message);
    this.status = status;
    this.kind = kind;
    this.hint = hint;
  }
}

async function call(method, path, body, options = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
      credentials: "same-origin",
      cache: "no-store",
      ...options,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, {
      kind: "gone",
      message: "Studio does not answer.",
      hint: "Is it still running? Start it again, and open the address that it prints.",
    });
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, answer.error);
  return answer;
}

export const get = (path) => call("GET", path);
export const post = (path, body, options) => call("POST", path, body, options);
export const remove = (path) => call("DELETE", path);

/** A file of the server's, as text. */
export async function text(path) {
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store" });
  if (!response.ok) throw new Refused(response.status);
  return response.text();
}

/** Why a file did not arrive. A refusal while it is being sent ends the connection, and its words may be lost. */
async function notTaken() {
  try {
    await get("/api/state");
  } catch {
    return new Refused(0, { kind: "gone", message: "The file could not be sent.", hint: "Is Studio still running?" });
  }
  return new Refused(0, {
    kind: "not-taken",
    message: "Studio did not take the file.",
    hint: "It may be too large, or the disk may have no room for it. Start Studio with it instead: dalenius studio TABLE.",
  });
}

/** Send a file, telling how much of it has gone. Only XMLHttpRequest can tell that. */
export function upload(file, told) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/tables?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) =>
      told(event.loaded, event.lengthComputable ? event.total : file.size),
    );
    request.addEventListener("load", () => {
      if (request.status < 300) resolve(request.response);
      else reject(new Refused(request.status, request.response?.error));
    });
    request.addEventListener("error", () => notTaken().then(reject));
    request.send(file);
  });
}
