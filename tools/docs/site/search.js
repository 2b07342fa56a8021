// search.js - finds pages that have all words of the search box; titles count more than text, early more than late.
"use strict";
const box = document.querySelector("nav input");
const found = document.getElementById("found");
const root = document.body.dataset.root;

function score(words, title, text) {
  let sum = 0;
  for (const word of words) {
    const inTitle = title.indexOf(word);
    const inText = text.indexOf(word);
    if (inTitle < 0 && inText < 0) return 0;
    if (inTitle >= 0) sum += 100;
    if (inText >= 0) sum += 10 + 5 / (1 + inText / 1000) + Math.min(text.split(word).length, 20);
  }
  return sum;
}

function around(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word));
  return "… " + text.slice(Math.max(0, at - 40), at + 80) + " …";
}

function show() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  if (words.length === 0) return;
  const hits = PAGES.map(([path, title, text]) => ({
    path, title, text, score: score(words, title.toLowerCase(), text.toLowerCase()),
  })).filter((hit) => hit.score > 0).sort((a, b) => b.score - a.score).slice(0, 12);
  if (hits.length === 0) found.textContent = "No page has all of these words.";
  for (const hit of hits) {
    const link = document.createElement("a");
    link.href = root + hit.path;
    link.textContent = hit.title;
    const some = document.createElement("small");
    some.textContent = around(hit.text, words[0]);
    link.append(some);
    found.append(link);
  }
}

box.addEventListener("input", show);
