// The page of a service: reads /v1/status, /v1/versions and /v1/lessons every few seconds; texts are set as text only.
"use strict";
const at = (id) => document.getElementById(id);
const make = (tag, text, more = {}) => Object.assign(document.createElement(tag), { textContent: text ?? "" }, more);
let shown = "";
let lessons = [];

async function ask(path, body) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers };
  const answer = await fetch(path, options);
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error), { status: answer.status });
  return said;
}

const number = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)).toString());
const since = (seconds) => {
  if (seconds === null) return "grows";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${number(seconds / 3600)} h`;
};
const when = (time) => new Date(time * 1000).toLocaleString();
const short = (version) => (version ? version.slice(0, 12) : "");

function facts(place, pairs) {
  place.replaceChildren(...pairs.map(([value, about]) => {
    const box = make("div");
    box.append(make("b", value), make("span", about));
    return box;
  }));
}

function table(place, heads, rows) {
  const head = make("tr");
  head.append(...heads.map((text) => make("th", text, { scope: "col" })));
  place.replaceChildren(head, ...rows.map((cells) => {
    const row = make("tr");
    row.append(...cells.map((cell) => {
      const box = make("td");
      box.append(cell instanceof Node ? cell : document.createTextNode(cell ?? ""));
      return box;
    }));
    return row;
  }));
}

function arm(name, counts) {
  const all = counts.failed + counts.passed;
  const row = make("div", "", { className: "arm" });
  const bar = make("progress", "", { max: 1, value: all ? counts.failed / all : 0 });
  bar.setAttribute("aria-label", `${name}: share of failures`);
  row.append(make("span", name), bar, make("span", all ? `${counts.failed} of ${all} failed` : "no outcome yet"));
  return row;
}

function trial(trials, labels) {
  const open = trials.filter((one) => !one.ended).pop();
  const last = open ?? trials[trials.length - 1];
  const boxes = [];
  if (!last) boxes.push(make("p", "No version was on trial yet. A trial begins when outcomes are reported.", { className: "dim" }));
  else {
    const text = `${short(last.version)} against ${short(last.baseline)}: ${last.state}, ${Math.round(last.share * 100)} % of the units`;
    boxes.push(make("p", text));
    const found = last.evidence;
    if (found) {
      boxes.push(arm("on trial", found.on_trial), arm("others", found.others));
      const evidence = `Evidence that it fails more often: ${number(found.worse)} (rolled back at 100); that it does not: ${number(found.good)} (promoted at 20).`;
      boxes.push(make("p", evidence, { className: "dim" }));
    }
  }
  at("trial").replaceChildren(...boxes);
  document.querySelector("[data-act=promote]").disabled = labels.canary === labels.stable;
}

function showLessons() {
  const wanted = at("find").value.toLowerCase();
  const open = new Set([...document.querySelectorAll("#lessons details[open]")].map((each) => each.id));
  const found = lessons.filter((one) => `${one.id} ${one.text}`.toLowerCase().includes(wanted));
  at("lesson-count").textContent = `${found.length} of ${lessons.length}`;
  at("lessons").replaceChildren(...found.slice(0, 300).map((one) => {
    const box = make("details", "", { id: `lesson-${one.id}`, open: open.has(`lesson-${one.id}`) });
    const head = make("summary");
    head.append(make("code", one.id), ` ${one.text} `, make("span", `${one.sources.length} runs, +${one.helpful} −${one.harmful}`, { className: "dim" }));
    const list = make("ul");
    list.append(...one.sources.slice(0, 50).map((source) => {
      const name = source.replace(/~\d+$/, "");
      const row = make("li");
      const button = make("button", "Forget this run", { className: "small" });
      button.dataset.act = "forget";
      button.dataset.trace = name;
      row.append(make("code", name), " ", button);
      return row;
    }));
    box.append(head, make("p", one.section, { className: "dim" }), list);
    return box;
  }));
}

async function show() {
  try {
    const [status, history] = await Promise.all([ask("v1/status"), ask("v1/versions")]);
    const { backlog, labels, generations } = status;
    if (labels.stable !== shown) {
      lessons = (await ask("v1/lessons")).lessons;
      shown = labels.stable;
      showLessons();
    }
    at("tenant").textContent = status.tenant;
    const cost = generations.reduce((sum, one) => sum + (one.result?.cost ?? 0), 0);
    facts(at("backlog"), [
      [number(backlog.waiting), "wait"], [number(backlog.learning), "being learned"], [since(backlog.oldest), "age of the oldest"],
      [number(backlog.arrival), "arrive a second"], [number(backlog.consumption), "learned a second"],
      [since(backlog.catch_up), "until caught up"], [`$${cost.toFixed(2)}`, "last 20 generations"],
    ]);
    trial(history.trials, labels);
    at("alerts").replaceChildren(...(status.alerts.length ? status.alerts.map((one) => make("li", `${when(one.at)}: ${one.kind}: ${one.text}`)) : [make("li", "none")]));
    table(at("generations"), ["number", "state", "runs", "began", "took", "version", "ended"], generations.map((one) => [
      one.id, one.error ? `${one.state}: ${one.error.split("\n")[0]}` : one.state, one.traces, when(one.started),
      one.ended ? since(one.ended - one.started) : "", make("code", short(one.version)), one.result?.reason,
    ]));
    table(at("versions"), ["version", "made", "from", "labels", "guard", ""], history.versions.slice(-50).reverse().map((one) => {
      const button = make("button", "Make stable", { className: "small", disabled: one.version === labels.stable });
      Object.assign(button.dataset, { act: "promote", version: one.version });
      const from = one.generation ? `generation ${one.generation}` : "start or by hand";
      return [make("code", short(one.version)), when(one.time), from, one.labels.join(", "), one.verdict, button];
    }));
    at("login").hidden = true;
    at("main").hidden = false;
    say("live", "good");
  } catch (error) {
    at("login").hidden = ![401, 403].includes(error.status);
    say(error.status ? error.message : "the service cannot be reached", "bad");
  }
}

function say(text, kind) {
  if (at("state").textContent !== text) at("state").textContent = text;
  at("state").className = `state ${kind}`;
}

function sure(question) {
  at("question").textContent = question;
  at("note").value = "";
  at("sure").returnValue = "no";
  at("sure").showModal();
  return new Promise((done) => at("sure").addEventListener("close", () => done(at("sure").returnValue === "yes"), { once: true }));
}

document.addEventListener("click", async (event) => {
  const { act, version, trace } = event.target.dataset ?? {};
  if (!act) return;
  const question = {
    promote: `Make ${version === "canary" ? "the version on trial" : short(version)} stable, for everybody?`,
    rollback: "Roll back? A trial ends; without one, the stable version before this one comes back.",
    forget: `Make the book as if ${trace} had never been?`,
  }[act];
  if (!(await sure(question))) return;
  try {
    await ask(`v1/${act}`, act === "forget" ? { traces: [trace] } : { version, note: at("note").value });
    await show();
  } catch (error) {
    say(error.message, "bad");
  }
});
at("find").addEventListener("input", showLessons);
at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value);
  at("token").value = "";
  show();
});
show();
setInterval(() => document.hidden || show(), 3000);
