// What the page shows. The state is in the fragment of the address, so that a link or a bookmark keeps it.

const defaults = {
  view: '',       // name of a view; empty: the first one
  input: '0',     // index of an attention
  unit: 'token',  // token or word
  head: '',       // the head of the views that show one head
  other: '',      // the head beside it in Matrix
  heads: '',      // selected heads, separated by commas
  query: '0',     // position of the query
  key: '',        // position of the key
  locked: '',     // Heads: 1 if only the lines of the query are shown
  mean: '',       // Heads: 1 for the mean of the selected heads
  zoom: '',       // Matrix: 1 for cells three times as large
  table: '',      // Grid, Profiles, Pairs, Tables
  column: '',     // Grid, Profiles, Pairs
  part: '',       // Grid, Profiles, Pairs: the rows that are shown, such as those of a relation
  sort: '',       // Tables: COLUMN:up or COLUMN:down
  filter: '',     // Tables: a text
  picture: '',    // Pictures
  theme: '',      // light, dark; empty: as the system
  order: '',      // Model: column by which heads are sorted
  colour: '',     // Model: column by which heads are coloured
};
const state = {...defaults};

function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(defaults)) state[name] = given.get(name) ?? defaults[name];
  if (!(Number(state.input) in attention)) state.input = defaults.input;
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

/** Shows another table, without the sorting and filter of the old one. */
const changeTable = (table) => change({table, column: '', part: '', sort: '', filter: ''});

const currentAttention = () => attention[Number(state.input)] ?? attention[0];
const byWord = () => state.unit === 'word' && currentAttention()?.data.words !== null;

/**
 * Returns the state with another unit: its query and key are the word of the token, or the first token of
 * the word.
 */
function inUnit(unit) {
  const words = currentAttention()?.data.words;
  const moved = (position) => {
    if (position === '' || !words || unit === state.unit) return position;
    return String(
        Math.max(0, unit === 'word' ? words.of[position] ?? 0 : words.of.indexOf(Number(position))));
  };
  return {unit, query: moved(state.query), key: moved(state.key)};
}

/** Returns the head of the views of one head: that of the state, or the first one. */
function currentHead() {
  const current = currentAttention();
  return current.places.has(state.head) ? state.head : current.heads[0].name;
}
/** Returns a position within the labels. */
const within = (value, labels) => Math.min(Math.max(0, Number(value) || 0), Math.max(0, labels.length - 1));
