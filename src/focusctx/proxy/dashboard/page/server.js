// The way to the server: questions, one thing to ask for, and the stream of news.

async function answered(response) {
  const content = response.status === 204 ? null : await response.json();
  if (response.ok) return content;
  const error = new Error((content.error?.message ?? response.statusText).replace(/^focusctx: /, ""));
  error.status = response.status;
  throw error;
}

export const ask = async (path) => answered(await fetch(`/ui/api/${path}`));

export const send = async (path, body = {}) =>
  answered(
    await fetch(`/ui/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  );

// Calls `work` at once, and then, however often it is wanted, no more than once in so many milliseconds.
export function atMostEvery(milliseconds, work) {
  let busy = false;
  let again = false;
  return async function now() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    await work();
    setTimeout(() => {
      busy = false;
      if (again) now();
    }, milliseconds);
  };
}

// A browser lets a site have six connections, so a hidden page closes its own.
export function follow(onNews, onConnection) {
  let source = null;
  const open = () => {
    if (source && source.readyState !== EventSource.CLOSED) return;
    source = new EventSource("/ui/api/live");
    source.onmessage = (message) => {
      onConnection("live");
      onNews(JSON.parse(message.data));
    };
    source.onerror = () => {
      onConnection("waiting");
      if (source.readyState === EventSource.CLOSED) again();
    };
  };
  // The browser tries again by itself, unless it was refused: then perhaps somebody has to log in.
  const again = async () => {
    const why = await ask("sessions").catch((error) => error);
    if (why.status === 403) location.reload();
    else setTimeout(open, 3000);
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) open();
    else if (source) source.close();
  });
  open();
}
