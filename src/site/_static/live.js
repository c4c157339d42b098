// Brings the explorers of a page to life; without JavaScript their stills remain.

// From a disk, a page may not read the others for the excerpts of a search.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

function wake(place) {
  const states = JSON.parse(place.querySelector("script").textContent);
  const code = location.hash.startsWith("#TT") ? location.hash.slice(1) : "";
  place.replaceChildren();
  for (const [name, state] of Object.entries(states)) {
    const column = place.appendChild(document.createElement("div"));
    if (Object.keys(states).length > 1) column.appendChild(document.createElement("h3")).textContent = name;
    if (place.closest(".shared")) state.address = location.href.split("#")[0];
    toyExplorer.render({ model: toyExplorer.modelOf(state), el: column, code: state.address ? code : "" });
  }
}

// Those in sight at once, the others one by one before somebody gets there: then nothing moves under the reader's eyes.
const asleep = [...document.querySelectorAll(".live")];
const isInSight = (place) => {
  const { top, bottom } = place.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
};
const wakeNext = () => {
  const next = asleep.findIndex(isInSight);
  if (asleep.length) wake(...asleep.splice(Math.max(next, 0), 1));
  if (asleep.length) setTimeout(wakeNext, asleep.some(isInSight) ? 0 : 50);
};
wakeNext();

// Paper is light.
const { dataset } = document.documentElement;
let theme = "";
addEventListener("beforeprint", () => {
  theme = dataset.theme;
  dataset.theme = "light";
});
addEventListener("afterprint", () => { dataset.theme = theme; });
