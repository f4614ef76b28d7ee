// Creates elements. Text is never interpreted as markup: it is always set as text.

/** Creates an element with properties ("class", "aria-*" and "data-*" as attributes; "on..." as listeners) and
 * children. */
export function make(tag, properties = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else if (name in out && !name.startsWith("aria") && name !== "width" && name !== "height") out[name] = value;
    else out.setAttribute(name, value);
  }
  out.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return out;
}

/** Sets properties of the element's style, such as {left: "20%"}. A style attribute would break the page's security
 * policy. */
export function styled(element, style) {
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, value);
  return element;
}

/** Creates an element of a drawing. */
export function shape(tag, attributes = {}, ...children) {
  const out = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  out.append(...children);
  return out;
}
