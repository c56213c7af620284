// What the page shows. The state is in the fragment of the address, so that a link or a bookmark keeps it.

const defaults = {
  view: '',
  input: '0',
  unit: 'token',
  head: '',
  other: '',
  heads: '',
  query: '0',
  key: '',
  table: '',
  column: '',
  part: '',
  sort: '',
  filter: '',
  picture: '',
  theme: '',
  order: '',
  colour: ''
};
const state = {...defaults};

function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(defaults)) state[name] = given.get(name) ?? defaults[name];
}

function writeState() {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(state))
    if (value !== defaults[name]) given.set(name, value);
  const fragment = given.toString();
  history.replaceState(null, '', fragment ? '#' + fragment : location.pathname + location.search);
}

let render = () => {};  // set by main.js

/** Changes the state and shows it. */
function change(values) {
  Object.assign(state, values);
  writeState();
  render();
}

/** Names of the selected heads, which all views mark. */
const selectedHeads = () => state.heads === '' ? [] : state.heads.split(',');
function toggleHead(name) {
  const heads = selectedHeads();
  const at = heads.indexOf(name);
  if (at < 0)
    heads.push(name);
  else
    heads.splice(at, 1);
  change({heads: heads.join(','), head: at < 0 ? name : state.head});
}

const currentAttention = () => attention[Number(state.input)] ?? attention[0];
const byWord = () => state.unit === 'word';

/** Returns the head of the single-head views: that of the state, or the first one. */
function currentHead() {
  const current = currentAttention();
  return current.places.has(state.head) ? state.head : current.heads[0].name;
}
/** Returns a position within the labels. */
const within = (value, labels) => Math.min(Math.max(0, Number(value) || 0), Math.max(0, labels.length - 1));
