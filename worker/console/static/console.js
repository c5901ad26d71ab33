"use strict";
/* Keys, copying, dialogs and the live list. Every page works without this script. */
(() => {
  const KEYS_OFF = "meeseeks-keys-off";
  const FIELDS = "input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]"; /* what takes letters */
  const typing = (target) => target.closest(FIELDS) !== null;
  const rows = () => [...document.querySelectorAll("tr[data-row]")];
  let pending = null;

  function move(step) {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + step))];
    next.querySelector("a")?.focus();
  }

  function open(id) {
    const dialog = document.getElementById(id);
    if (dialog && !dialog.open) dialog.showModal();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (localStorage.getItem(KEYS_OFF) || document.querySelector("dialog[open]")) return;
    const key = event.key;
    if (pending === "g") {
      pending = null;
      const link = document.querySelector(`nav a[data-key="${CSS.escape(key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
    } else if (key === "g") {
      pending = "g";
    } else if (key === "/") {
      const field = document.querySelector("[data-search]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    } else if (key === "j") { move(1); } else if (key === "k") { move(-1); } else if (key === "?") { open("keys"); }
  });

  document.addEventListener("click", async (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) open(opener.dataset.opens);
    const copier = event.target.closest("[data-copies]");
    if (copier) {
      await navigator.clipboard.writeText(document.getElementById(copier.dataset.copies).textContent);
      copier.textContent = "Copied";
    }
    const chooser = event.target.closest("[data-chooses]");
    if (chooser) document.querySelectorAll(chooser.dataset.chooses).forEach((box) => { box.checked = chooser.checked; });
  });

  document.addEventListener("toggle", (event) => {
    if (event.target.matches?.("details.menu") && !event.target.open) event.target.querySelector("summary").focus();
  }, true);
  document.addEventListener("keydown", (event) => {
    const menu = document.querySelector("details.menu[open]");
    if (event.key === "Escape" && menu) menu.open = false;
  });

  document.addEventListener("DOMContentLoaded", () => {
    const box = document.getElementById("keys-on");
    if (box) {
      box.checked = !localStorage.getItem(KEYS_OFF);
      box.addEventListener("change", () => {
        if (box.checked) localStorage.removeItem(KEYS_OFF); else localStorage.setItem(KEYS_OFF, "1");
      });
    }
    const list = document.querySelector("[data-stream]");
    if (list) live(list);
    const part = document.querySelector("[data-follows]");
    if (part) follow(part);
  });

  /* A part of the page follows the server until the server says that it ended. */
  function follow(part) {
    const source = new EventSource(part.dataset.follows);
    source.addEventListener("progress", (event) => { part.innerHTML = event.data; });
    source.addEventListener("reload", () => location.reload());
    window.addEventListener("pagehide", () => source.close());
  }

  /* The list of requests follows the server while the page is seen and not paused. */
  function live(list) {
    const line = document.getElementById("live-line");
    const pause = document.getElementById("live-pause");
    let source = null, waiting = [], paused = false;
    const say = (text) => { if (line) line.textContent = text; };

    function show() {
      for (const row of waiting) {
        row.classList.add("new");
        list.prepend(row);
      }
      waiting = [];
      say("");
    }
    function arrived(event) {
      const holder = document.createElement("template");
      holder.innerHTML = event.data;
      const known = new Set([...rows(), ...waiting].map((row) => row.id));
      waiting.push(...[...holder.content.querySelectorAll("tr")].reverse().filter((row) => !known.has(row.id)));
      const count = waiting.length;
      if (!count) return;
      if (paused || window.scrollY > 80) say(`${count} new ${count === 1 ? "request" : "requests"}`); else show();
    }
    function start() {
      if (source || paused || document.hidden) return;
      source = new EventSource(list.dataset.stream);
      source.addEventListener("rows", arrived);
      source.addEventListener("reload", () => location.reload());
      source.addEventListener("error", () => {
        if (source?.readyState === EventSource.CLOSED) { source = null; setTimeout(start, 5000); }
      });
    }
    function stop() { source?.close(); source = null; }
    document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
    window.addEventListener("pagehide", stop);
    window.addEventListener("scroll", () => { if (window.scrollY <= 80 && !paused && waiting.length) show(); });
    pause?.addEventListener("click", () => {
      paused = !paused;
      pause.textContent = paused ? "Go on" : "Pause";
      if (paused) stop(); else { show(); start(); }
    });
    start();
  }
})();
