"use strict";
// Text reaches the page as text nodes and attributes alone, never as markup.

/** An element with attributes (a function: a listener) and children (strings: text). */
function make(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
function draw(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Gives an element its method's colour; the style sheet makes it lighter on a dark page. */
function coloured(element, colour) {
  // black would be lost on a dark page: full prefill has the colour of the text
  if (colour && colour !== "#000000") element.style.setProperty("--c", colour);
  element.classList.add("mine");
  return element;
}

/** A labelled select. `options`: texts, or [value, text]. Hidden where there is nothing to choose. */
function selectOf(label, options, value, changed) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const select = make("select", { "aria-label": label, change: () => changed(select.value) });
  for (const [at, text] of pairs) select.append(make("option", { value: at }, text));
  select.value = value;
  const field = make("label", { class: "field" }, label, select);
  field.hidden = pairs.length < 2;
  if (field.hidden) field.style.display = "none";
  return field;
}

function toggleOf(text, checked, changed, ...before) {
  const box = make("input", { type: "checkbox", change: () => changed(box.checked) });
  box.checked = checked;
  return make("label", { class: "toggle" }, box, ...before, text);
}

function unique(values) {
  return [...new Set(values)];
}

function seconds(value) {
  if (value === null) return "–";
  return value >= 1 ? `${value.toFixed(2)} s` : `${(value * 1000).toFixed(0)} ms`;
}

function fixed(value, digits) {
  return value === null ? "–" : value.toFixed(digits);
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}
