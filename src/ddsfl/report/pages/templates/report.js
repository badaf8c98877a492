"use strict";
document.documentElement.classList.add("scripted");

document.addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  const words = new Intl.Collator(undefined, { numeric: true });

  // The list of sections: folded where it would stand in the way, and it says where one is.
  const contents = one(".contents details");
  const narrow = window.matchMedia("(max-width: 60rem)");
  const fold = () => (contents.open = !narrow.matches);
  narrow.addEventListener("change", fold);
  fold();
  const links = all(".contents a");
  for (const link of links) link.addEventListener("click", fold);
  const inView = new Set();
  const observer = new IntersectionObserver((changes) => {
    for (const change of changes) inView[change.isIntersecting ? "add" : "delete"](change.target.id);
    const current = links.find((link) => inView.has(link.hash.slice(1)));
    for (const link of links) {
      if (link === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-15% 0px -60% 0px" });
  for (const part of all(".part")) observer.observe(part);

  // On paper everything is open; afterwards it is as it was.
  const folded = new Set();
  window.matchMedia("print").addEventListener("change", (print) => {
    if (print.matches) for (const part of all("details:not([open])")) folded.add(part);
    for (const part of folded) part.open = print.matches;
    if (!print.matches) folded.clear();
  });

  for (const box of all("[data-maps]")) {
    box.addEventListener("change", () => root.classList.toggle("without-maps", !box.checked));
  }

  // Mistakes: cards and rows are sorted and chosen alike.
  const form = one("[data-controls]");
  const lists = all("#mistakes [data-list]");
  const count = one("[data-shown]");
  const countOfAll = count?.textContent;
  const has = (item, key, value) => !value || item.dataset[key].split(" ").includes(value);
  const keys = {
    order: () => "",
    true: (item) => one("[data-true-name]", item).textContent,
    name: (item) => one(".path", item).textContent,
  };

  function choose() {
    const wanted = form.elements;
    let shown = 0;
    let total = 0;
    for (const list of lists) {
      const key = keys[wanted.sort.value];
      const items = [...list.children].map((item) => ({ item, text: key(item), order: Number(item.dataset.order) }));
      items.sort((a, b) => words.compare(a.text, b.text) || a.order - b.order);
      let here = 0;
      for (const { item } of items) {
        item.hidden = !(has(item, "true", wanted.true.value) && has(item, "predicted", wanted.predicted.value));
        here += !item.hidden;
      }
      list.append(...items.map(({ item }) => item));
      shown += here;
      total += items.length;
      const box = list.closest(".scroll");
      if (box) box.hidden = !here;
      if (box && one("[data-rows-title]")) one("[data-rows-title]").hidden = !here;
    }
    count.textContent = shown === total ? countOfAll : `${shown} of ${total} mistakes shown`;
  }
  form?.addEventListener("submit", (event) => event.preventDefault());
  form?.addEventListener("change", choose);
  form?.addEventListener("reset", () => setTimeout(() => { root.classList.remove("without-maps"); choose(); }));
  if (form) choose(); // a browser that comes back to the page fills the controls as they were
  for (const link of all(".pair")) {
    link.addEventListener("click", (event) => {
      if (!form) return;
      event.preventDefault();
      form.elements.true.value = link.dataset.true;
      form.elements.predicted.value = link.dataset.predicted;
      choose();
      const title = one("#mistakes-title");
      title.scrollIntoView();
      title.focus({ preventScroll: true });
    });
  }

  // The column of the matrix under the pointer; its row is marked by the style.
  const matrix = one(".matrix");
  const mark = (cell) => {
    for (const marked of all(".marked, .lit", matrix)) marked.classList.remove("marked", "lit");
    if (!cell) return;
    for (const row of matrix.rows) {
      row.cells[cell.cellIndex].classList.add(row.parentElement.tagName === "THEAD" ? "marked" : "lit");
    }
    cell.parentElement.cells[0].classList.add("marked");
  };
  for (const kind of ["pointerover", "focusin"]) {
    matrix?.addEventListener(kind, (event) => mark(event.target.closest("td")));
  }
  matrix?.addEventListener("pointerleave", () => mark(null));

  // Tables that a column can sort: numbers from the largest, names from the first.
  for (const button of all(".sortable button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const body = head.closest("table").tBodies[0];
      const cell = (row) => all("[data-cell]", row)[button.dataset.column];
      const number = button.dataset.column !== "0";
      const before = head.getAttribute("aria-sort");
      const up = before ? before === "descending" : !number;
      for (const other of all("th", head.parentElement)) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => Number(one("[data-value]", cell(row)).dataset.value);
      const compare = (a, b) => {
        if (!number) return words.compare(cell(a).textContent, cell(b).textContent) * (up ? 1 : -1);
        const [x, y] = [value(a), value(b)];
        return Number.isNaN(x) - Number.isNaN(y) || (x - y || 0) * (up ? 1 : -1); // unknown values last
      };
      body.append(...[...body.rows].sort(compare));
    });
  }

  // Filters: the one under the pointer or with the focus, else the chosen one, is described next to the grid.
  for (const filters of all("[data-filters]")) {
    const readout = one("[data-readout]", filters);
    let chosen = null;
    const show = (filter) => {
      if (!filter || readout.described === filter) return;
      readout.described = filter;
      const picture = one("img", filter).cloneNode();
      picture.className = "readout-picture";
      readout.replaceChildren(picture, one(".filter-more", filter.parentElement).cloneNode(true));
    };
    for (const filter of all(".filter", filters)) {
      filter.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show(filter));
      filter.addEventListener("pointerleave", () => show(chosen));
      filter.addEventListener("focus", () => show(filter));
      filter.addEventListener("click", () => {
        chosen?.removeAttribute("aria-pressed");
        chosen = filter;
        chosen.setAttribute("aria-pressed", "true");
        show(filter);
      });
    }
  }

  // One picture, enlarged, with its neighbours among those that are shown.
  const viewer = one(".viewer");
  if (!viewer) return;
  const opacity = one("[data-opacity]", viewer);
  let card = null;
  const neighbours = () => all("li:not([hidden]) > .card", card.closest("[data-list]"));

  function figure(thumb) {
    const made = document.createElement("figure");
    const stage = document.createElement("div");
    stage.className = "viewer-stage";
    stage.style.cssText = thumb.parentElement.style.cssText; // its shape
    stage.append(...all("img", thumb).map((image) => image.cloneNode()));
    for (const image of all("img", stage)) image.loading = "eager";
    one("img", stage).alt = "The picture";
    made.append(stage);
    const tint = one(".tint", stage);
    if (!tint) return made;
    tint.alt = `Map: orange speaks ${tint.dataset.orange}, blue ${tint.dataset.blue}`;
    const caption = document.createElement("figcaption");
    for (const [name, text] of [
      ["speaks-of", tint.dataset.of],
      ["speaks-for", `Orange speaks ${tint.dataset.orange}`],
      ["speaks-against", `Blue speaks ${tint.dataset.blue}`],
    ]) {
      const line = document.createElement("span");
      line.className = name;
      line.textContent = text;
      caption.append(line);
    }
    made.append(caption);
    return made;
  }

  function show(next) {
    card = next;
    const list = neighbours();
    const at = list.indexOf(card);
    one("[data-at]", viewer).textContent = `${at + 1} of ${list.length}`;
    one('[data-step="-1"]', viewer).disabled = at === 0;
    one('[data-step="1"]', viewer).disabled = at === list.length - 1;
    one("[data-figures]", viewer).replaceChildren(...all(".thumb", card).map(figure));
    const map = one("[data-map]", viewer);
    if (map) map.hidden = !one(".tint", card);
    one("[data-words]", viewer).replaceChildren(...[...one(".card-text", card).children].map((part) => part.cloneNode(true)));
    one("[data-name]", viewer).textContent = one(".path", card).textContent;
    one("[data-copy]", viewer).textContent = "Copy name";
  }

  function step(by) {
    const list = neighbours();
    const next = list[list.indexOf(card) + by];
    if (next) show(next);
  }

  for (const button of all(".card")) {
    button.setAttribute("aria-haspopup", "dialog");
    button.addEventListener("click", () => {
      show(button);
      viewer.showModal();
    });
  }
  for (const button of all("[data-step]", viewer)) button.addEventListener("click", () => step(Number(button.dataset.step)));
  one("[data-close]", viewer).addEventListener("click", () => viewer.close());
  viewer.addEventListener("click", (event) => event.target === viewer && viewer.close());
  viewer.addEventListener("close", () => card.focus());
  viewer.addEventListener("keydown", (event) => {
    if (event.target === opacity) return;
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "ArrowRight") step(1);
  });
  opacity?.addEventListener("input", () => {
    root.style.setProperty("--tint", opacity.value / 100);
    one("output", viewer).textContent = `${opacity.value}\u00a0%`;
  });
  one("[data-copy]", viewer).addEventListener("click", async (event) => {
    const name = one("[data-name]", viewer);
    try {
      await navigator.clipboard.writeText(name.textContent);
      event.target.textContent = "Copied";
    } catch {
      window.getSelection().selectAllChildren(name);
      event.target.textContent = "Selected: press Ctrl+C";
    }
  });
});
