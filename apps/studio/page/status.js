// The line that says what an action has done or why it has failed.
export const element = (id) => document.getElementById(id);

export function say(text, isError = false) {
  const status = element("status");
  status.textContent = text;
  status.className = `shown ${isError ? "error" : ""}`;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => (status.className = ""), isError ? 8000 : 2500);
}

export const failed = (error) => error.name === "AbortError" || say(error.message, true);
