// Brings the explorers of a page to life as they come near; without JavaScript their stills remain.
const modelOf = (state) => ({
  get: (name) => state[name],
  set: (name, value) => { state[name] = value; },
  on() {}, off() {}, save_changes() {},
});

function wake(place) {
  const states = JSON.parse(place.querySelector("script").textContent);
  const code = location.hash.startsWith("#TT") ? location.hash.slice(1) : "";
  place.replaceChildren();
  for (const [name, state] of Object.entries(states)) {
    const column = place.appendChild(document.createElement("div"));
    if (Object.keys(states).length > 1) column.appendChild(document.createElement("h3")).textContent = name;
    if (place.closest(".shared")) state.address = location.href.split("#")[0];
    toyExplorer.render({ model: modelOf(state), el: column, code: state.address ? code : "" });
  }
}

const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    watcher.unobserve(target);
    wake(target);
  }
}, { rootMargin: "200px" });
for (const place of document.querySelectorAll(".live")) watcher.observe(place);
