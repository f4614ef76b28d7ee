// Copies text.

/** Says what was copied; where the browser does not allow that, only the text. */
export async function copyText(text, say) {
  const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  say(isCopied ? `Copied: ${text}` : text);
}
