"use strict";
// At once, so that a long page never lays out the images that it does not show.
document.documentElement.classList.add("scripted");

document.addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const images = all("article.image");
  const narrow = window.matchMedia("(max-width: 52rem)");

  // One image at a time; its address is its place in the page, so that the Back button works.
  function showImage(shown) {
    images.forEach((image) => image.classList.toggle("shown", image === shown));
    for (const link of all(".index a")) {
      if (link.hash === `#${shown.id}`) {
        link.setAttribute("aria-current", "true");
        link.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else {
        link.removeAttribute("aria-current");
      }
    }
  }
  const addressed = () => (location.hash ? images.find((image) => `#${image.id}` === location.hash) : images[0]);
  window.addEventListener("hashchange", () => {
    const image = addressed();
    if (!image) return; // another place of the page, such as where its main part begins
    showImage(image);
    window.scrollTo(0, 0);
  });
  showImage(addressed() ?? images[0]);

  // Controls are repeated for each image and hold for all of them.
  for (const control of all("[data-control]")) {
    const name = control.dataset.control;
    const apply = () => {
      for (const same of all(`[data-control="${name}"]`)) {
        same.value = control.value;
        same.checked = control.checked;
        if (name === "opacity") same.parentElement.querySelector("output").textContent = `${control.value}\u00a0%`;
      }
      if (name === "opacity") root.style.setProperty("--tint", control.value / 100);
      if (name === "contours") root.classList.toggle("with-contours", control.checked);
      if (name === "boxes") root.classList.toggle("without-boxes", !control.checked);
    };
    control.addEventListener("input", apply);
  }

  images.forEach((image) => {
    const stage = image.querySelector(".stage");
    const bubble = image.querySelector(".bubble");
    // What the pointer or the keyboard is on comes before what was chosen by a click or a tap.
    let near = null;
    let chosen = null;

    function update() {
      const active = near ?? chosen;
      const voice = active?.dataset.voice;
      for (const part of all("[data-voice]", image)) {
        part.classList.toggle("active", part.dataset.voice === voice);
        if (part.matches("button")) {
          part.setAttribute("aria-pressed", String(part.dataset.voice === chosen?.dataset.voice));
          part.removeAttribute("aria-describedby");
        }
      }
      for (const layer of all(".layer", image)) layer.classList.toggle("speaking", Boolean(voice));
      bubble.hidden = !active?.matches("button.box");
      if (!bubble.hidden) {
        fillBubble(active);
        placeBubble(active);
        active.setAttribute("aria-describedby", bubble.id);
      }
    }

    function fillBubble(box) {
      const card = image.querySelector(`.voice[data-voice="${box.dataset.voice}"]`);
      const heading = card.closest(".voices").querySelector("h4");
      const line = (text, name) => {
        const made = document.createElement("div");
        made.className = `bubble-line ${name}`;
        made.textContent = text;
        return made;
      };
      const value = card.querySelector(".value").textContent;
      const parts = [
        line(value, "value"),
        line(heading.textContent.trim().replace(/\s+/g, " "), ""),
        line(card.querySelector(".origin").textContent, "quiet"),
      ];
      if (box.dataset.place) parts.push(line(`This place: ${box.dataset.place}`, "quiet"));
      const patches = card.querySelector(".patches");
      if (patches) parts.push(patches.cloneNode(true));
      bubble.replaceChildren(...parts);
      bubble.classList.toggle("for", card.matches(".for"));
      bubble.classList.toggle("against", card.matches(".against"));
    }

    // Below the box if there is room in the window, else above it; never beyond the sides of the picture.
    // On a narrow screen it stands below or above the whole picture, most of which it would cover.
    function placeBubble(box) {
      const gap = 8;
      const besides = narrow.matches ? stage : box;
      const start = narrow.matches ? 0 : box.offsetTop;
      const left = Math.min(narrow.matches ? 0 : box.offsetLeft, stage.clientWidth - bubble.offsetWidth);
      const below = start + besides.offsetHeight + gap;
      const above = start - bubble.offsetHeight - gap;
      const stageTop = stage.getBoundingClientRect().top;
      const fits = stageTop + below + bubble.offsetHeight <= window.innerHeight;
      const top = fits || stageTop + above < 0 ? below : above;
      bubble.style.left = `${Math.max(0, left)}px`;
      bubble.style.top = `${top}px`;
    }

    function choose(part) {
      chosen = part;
      near = null;
      update();
    }

    for (const part of all("button[data-voice]", image)) {
      part.addEventListener("pointerenter", (event) => {
        if (event.pointerType !== "mouse") return;
        near = part;
        update();
      });
      part.addEventListener("pointerleave", () => {
        near = null;
        update();
      });
      part.addEventListener("focus", () => {
        if (!part.matches(":focus-visible")) return;
        near = part;
        update();
      });
      part.addEventListener("blur", () => {
        near = null;
        update();
      });
      part.addEventListener("click", () => choose(chosen === part ? null : part));
    }
    image.addEventListener("click", (event) => {
      if (!event.target.closest("[data-voice]")) choose(null);
    });
    image.addEventListener("keydown", (event) => {
      if (event.key === "Escape") choose(null);
    });

    for (const radio of all(".questions input", image)) {
      radio.addEventListener("change", () => {
        const number = radio.value;
        for (const layer of all(".layer", image)) layer.classList.toggle("shown", layer.dataset.question === number);
        for (const part of all(".only-asked", image)) part.hidden = part.dataset.question !== number;
        choose(null);
      });
    }
  });
});
