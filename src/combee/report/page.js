for (const box of document.querySelectorAll(".filter")) {
  const of = document.getElementById(box.dataset.of), [search, tick] = box.querySelectorAll("input");
  const items = [...of.querySelectorAll("tbody tr, li")], count = box.querySelector("span");
  const apply = () => {
    const word = search.value.toLowerCase(), failures = tick && tick.checked;
    let left = 0;
    for (const item of items) {
      item.hidden = !item.textContent.toLowerCase().includes(word) || (failures && !item.querySelector(".down"));
      left += !item.hidden;
    }
    if (word || failures) for (const fold of of.querySelectorAll("details.section")) fold.open = true;
    count.textContent = word || failures ? `${left} of ${items.length}` : "";
  };
  box.hidden = false;
  search.oninput = apply;
  if (tick) tick.onchange = apply;
}
for (const key of document.querySelectorAll("svg [data-key]")) key.onclick = () => {
  key.classList.toggle("off");
  for (const drawn of key.closest("svg").querySelectorAll(`[data-series="${key.dataset.key}"]`))
    drawn.style.display = key.classList.contains("off") ? "none" : "";
};
for (const [number, svg] of [...document.querySelectorAll("svg[data-axes]")].entries()) {
  const [left, right, low, high, log, bottom, top] = svg.dataset.axes.split(" ").map(Number);
  const make = (name, around, given) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in given) made.setAttribute(key, given[key]);
    return around.appendChild(made);
  };
  const place = (x, from, to) => left + (right - left) * (log ? Math.log(x / from) / Math.log(to / from) : (x - from) / (to - from));
  const value = at => ((share) => log ? from * (to / from) ** share : from + share * (to - from))((at - left) / (right - left));
  const said = (x, digits) => x.toLocaleString("en", {maximumSignificantDigits: digits});
  const lines = [...svg.querySelectorAll("[data-points]")].map(group => ({
    group, name: group.dataset.name, points: group.dataset.points.split(" ").filter(Boolean).map(pair => pair.split(":").map(Number)),
  }));
  const clip = make("clipPath", svg, {id: `clip${number}`});
  make("rect", clip, {x: left, y: top - 5, width: right - left, height: bottom - top + 10});
  const area = make("rect", svg, {x: left, y: top, width: right - left, height: bottom - top, class: "hover"});
  const chosen = make("rect", svg, {y: top, height: bottom - top, class: "chosen"}), tip = make("g", svg, {class: "tip"});
  let from = low, to = high, begun = null;
  const draw = () => {
    const [first, last] = [place(from, low, high), place(to, low, high)], k = (right - left) / (last - first);
    const moved = at => left + (at - first) * k - at;
    for (const {group, points} of lines) {
      group.setAttribute("clip-path", k > 1 ? `url(#clip${number})` : "none");
      let next = 0;
      for (const part of group.children) part.setAttribute("transform", part.classList.contains("dot")
        ? `translate(${moved(place(points[next++][0], low, high))} 0)` : `matrix(${k} 0 0 1 ${left - first * k} 0)`);
    }
    for (const mark of svg.querySelectorAll("[data-at]")) {
      const at = +mark.dataset.at + moved(+mark.dataset.at);
      mark.setAttribute("transform", `translate(${at - mark.dataset.at} 0)`);
      mark.style.display = at < left - 1 || at > right + 1 ? "none" : "";
    }
    for (const tick of svg.querySelectorAll("[data-tick]")) {
      tick.dataset.text = tick.dataset.text || tick.textContent;
      tick.textContent = k > 1 ? said(value(+tick.dataset.tick), 4) : tick.dataset.text;
    }
  };
  const across = event => {
    const box = svg.getBoundingClientRect();
    return Math.min(right, Math.max(left, (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width));
  };
  area.onpointermove = event => {
    const at = across(event), shown = lines.filter(line => line.points.length && line.group.style.display !== "none");
    tip.replaceChildren();
    if (begun !== null) for (const [key, size] of [["x", Math.min(begun, at)], ["width", Math.abs(at - begun)]]) chosen.setAttribute(key, size);
    const far = point => Math.abs(place(point[0], from, to) - at);
    const near = shown.map(line => line.points.reduce((best, point) => far(point) < far(best) ? point : best));
    if (!near.length) return;
    const x = near.reduce((best, point) => far(point) < far(best) ? point : best)[0], px = place(x, from, to);
    const rows = [said(x, 6), ...shown.flatMap((line, i) => near[i][0] === x ? [`${said(near[i][1], 5)}  ${line.name.slice(0, 28)}`] : [])];
    const high = 16 * rows.length + 6, wide = 12 + 6.4 * Math.max(...rows.map(row => row.length)), start = Math.max(0, px + wide + 10 > right ? px - wide - 8 : px + 8);
    make("line", tip, {x1: px, x2: px, y1: top, y2: bottom, class: "mark"});
    make("rect", tip, {x: start, y: bottom - high - 4, width: wide, height: high, rx: 4});
    rows.forEach((row, i) => { make("text", tip, {x: start + 6, y: bottom - high + 10 + 16 * i, class: "label"}).textContent = row; });
  };
  area.onpointerdown = event => { begun = across(event); area.setPointerCapture(event.pointerId); };
  area.onpointerup = event => {
    const [one, other] = [begun, across(event)].sort((a, b) => a - b);
    begun = null;
    chosen.setAttribute("width", 0);
    if (other - one > 6) [from, to] = [value(one), value(other)];
    draw();
  };
  area.ondblclick = () => { [from, to] = [low, high]; draw(); };
  area.onpointerleave = () => tip.replaceChildren();
}
const unfold = () => {
  const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let at = place; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (place) place.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();
const live = document.getElementById("live");
if (live && live.dataset.at) setInterval(async () => {
  const reply = await fetch(live.dataset.at).catch(() => null);
  if (!reply || !reply.ok) return void (live.style.opacity = 0.5);
  live.style.opacity = 1;
  live.innerHTML = await reply.text();
  if (reply.headers.get("x-done")) location.reload();
}, 2000);
