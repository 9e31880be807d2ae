// Runs the page's script over a document of the least that it needs, with the answers that are given; prints what it shows.
"use strict";
const fs = require("node:fs");
const vm = require("node:vm");

class Element {
  constructor(name) { this.name = name; this.attributes = {}; this.children = []; this.value = "5"; }
  setAttribute(key, value) { this.attributes[key] = String(value); }
  append(...inside) { this.children.push(...inside); }
  replaceChildren(...inside) { this.children = inside; }
  querySelector() { this.body = this.body || new Element("tbody"); return this.body; }
  set textContent(text) { this.children = [text]; }
  get text() { return this.children.map((child) => (typeof child === "string" ? child : child.text)).join(" ") + (this.body ? this.body.text : ""); }
  all(name) {
    const below = [...this.children, ...(this.body ? [this.body] : [])].filter((child) => typeof child !== "string");
    return [...(this.name === name ? [this] : []), ...below.flatMap((child) => child.all(name))];
  }
}

const answers = JSON.parse(fs.readFileSync(0, "utf8"));
const elements = {};
const document = {
  getElementById: (id) => (elements[id] = elements[id] || new Element(id)),
  createElement: (name) => new Element(name),
  createElementNS: (_, name) => new Element(name),
};
const fetch = async (path) => {
  const answer = answers[path.split("?")[0]];
  return { ok: answer !== undefined, status: answer === undefined ? 503 : 200, json: async () => answer };
};
vm.runInNewContext(fs.readFileSync(process.argv[2], "utf8"), { document, fetch, setTimeout: () => {}, Math, Map, Promise });
setTimeout(() => {
  const stages = elements.stages ? elements.stages.all("section") : [];
  console.log(JSON.stringify({
    said: elements.said.text,
    bad: elements.said.attributes.class === "bad",
    stages: stages.map((stage) => ({
      text: stage.text,
      charts: stage.all("svg").map((picture) => picture.attributes["aria-label"]),
      paths: stage.all("path").map((path) => path.attributes.d),
    })),
    moves: elements.moves ? elements.moves.all("tr").map((row) => row.text) : [],
    phases: elements.moves ? elements.moves.all("i").map((bar) => bar.attributes.class) : [],
  }));
}, 50);
