// What scripts of pages have in common: elements made, bound and told of updates, and what they are filled with.
const SPACE = "http://www.w3.org/2000/svg", FRESH = 3000;

export const make = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};

// A path of a drawing that is stretched, but not its strokes.
export const makePath = (name, path = "") => {
  const element = document.createElementNS(SPACE, "path");
  element.setAttribute("class", name);
  element.setAttribute("vector-effect", "non-scaling-stroke");
  element.setAttribute("d", path);
  return element;
};

// Binds each element once, also those that an update of the page brings; what is bound already renews itself.
export const bindEach = (selector, bind) => {
  const bound = new Map();
  const follow = () => {
    for (const root of bound.keys()) if (!root.isConnected) bound.delete(root);
    for (const root of document.querySelectorAll(selector)) {
      if (bound.has(root)) bound.get(root)?.renew?.(); else bound.set(root, bind(root));
    }
  };
  follow();
  document.addEventListener("podtune-update", follow);
};

export const load = async (address) => {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
};

// Of all charts that ask for the same, one asks the server; after an update of the page, at most every few seconds.
const answers = new Map();
export const loadOnce = (address) => {
  if (!answers.has(address)) {
    const answer = load(address);
    answers.set(address, { since: Date.now(), answer });
    answer.catch(() => answers.delete(address));
  }
  return answers.get(address).answer;
};
document.addEventListener("podtune-update", () => {
  for (const [address, { since }] of answers) if (Date.now() - since > FRESH) answers.delete(address);
});

// With how many decimals the numbers of a column stand one below the other, as the server chooses; null where no count suits all.
export const chooseDecimals = (values) => {
  const sizes = values.filter(Boolean).map(Math.abs), largest = Math.max(0, ...sizes);
  if (!sizes.length) return 0;
  if (largest >= 1e6 || largest < 1e-3) return null;
  if (sizes.every(Number.isInteger)) return 0;
  const decimals = Math.max(0, 3 - Math.floor(Math.log10(largest)));
  return Math.min(...sizes) < 10 ** -decimals / 2 ? null : decimals;
};

// Four digits of a number, as the server writes them.
export const shorten = (value) => {
  if (!value || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6)) return String(Number(value.toPrecision(4)));
  const [digits, power] = value.toExponential(3).split("e");
  return `${Number(digits)}e${Number(power)}`;
};
