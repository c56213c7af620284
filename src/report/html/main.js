// The page: its views, and the controls that all views share.

const views = [
  ['model', 'Model', modelView, () => attention.length > 0],
  ['matrix', 'Matrix', matrixView, () => attention.length > 0],
  ['heads', 'Heads', headView, () => attention.length > 0],
  ['query', 'Query', queryView, () => attention.length > 0],
  ['neuron', 'Neurons', neuronView, () => attention.length > 0],
  ['grid', 'Grid', gridView, () => gridTables().length > 0],
  ['profiles', 'Profiles', profileView, () => profileTables().length > 0],
  ['pairs', 'Pairs', pairView, () => pairTables().length > 0],
  ['pictures', 'Pictures', pictureView, () => page.pictures.length > 0],
  ['tables', 'Tables', tableView, () => page.tables.length > 0],
  ['about', 'About', aboutView, () => true],
].filter(([, , , available]) => available());

/** Makes the controls that all views share. The view `name` is shown. */
function controls(name) {
  const list = [];
  if (attention.length > 1) {
    const titleOf = ({data}) =>
        shorten([data.input, data.component, data.text].filter((text) => text).join(': '), 60);
    list.push(choice(
        'Input', attention.map((each, index) => [String(index), titleOf(each)]), state.input,
        (input) => change({input, query: '0', key: '', locked: ''}), {'data-state': 'input'}));
  }
  if (currentAttention()?.data.words && name !== 'neuron')
    list.push(choice(
        'Show', [['token', 'tokens'], ['word', 'words']], state.unit, (unit) => change(inUnit(unit)),
        {'data-state': 'unit'}));
  list.push(stateChoice('Colours', 'theme', [['', 'as the system'], ['light', 'light'], ['dark', 'dark']]));
  return list;
}

let shownTimes = 0;  // only the last of several changes is shown

/** Returns a selector of the control that has the focus, by its first data attribute; null if it has none. */
function focusedControl() {
  const name = document.activeElement?.getAttributeNames?.().find((each) => each.startsWith('data-'));
  return name ? `[${name}="${CSS.escape(document.activeElement.getAttribute(name))}"]` : null;
}

render = async () => {
  const printed = matchMedia('print').matches;
  const dark =
      state.theme === '' ? matchMedia('(prefers-color-scheme: dark)').matches : state.theme === 'dark';
  theme = dark && !printed ? 'dark' : 'light';
  document.documentElement.classList.toggle('dark', theme === 'dark');
  const [name, , build] = views.find(([each]) => each === state.view) ?? views[0];
  for (const item of document.querySelectorAll('#views button')) {
    if (item.dataset.view === name)
      item.setAttribute('aria-current', 'page');
    else
      item.removeAttribute('aria-current');
  }
  const focus = focusedControl();
  const time = ++shownTimes;
  let elements;
  try {
    elements = await build();
  } catch (error) {
    console.error(error);
    elements = [note(`This view cannot be shown: ${error.message}`)];
  }
  if (time !== shownTimes) return;
  const scrolled = new Map([...document.querySelectorAll('[data-scroll]')].map(
      (each) => [each.dataset.scroll, [each.scrollLeft, each.scrollTop]]));
  document.getElementById('controls').replaceChildren(...controls(name));
  const main = document.getElementById('main');
  main.replaceChildren(...elements.filter((element) => element !== null && element !== undefined));
  main.dataset.view = name;
  for (const each of document.querySelectorAll('[data-scroll]'))
    [each.scrollLeft, each.scrollTop] = scrolled.get(each.dataset.scroll) ?? [0, 0];
  if (focus) document.querySelector(focus)?.focus({preventScroll: true});
  document.documentElement.dataset.ready = String(time);
};

document.title = `${page.title} - attnctl`;
document.getElementById('title').textContent = page.title;
document.getElementById('subtitle').textContent = page.subtitle;
document.getElementById('views').append(...views.map(
    ([name, text]) => button(text, () => change({view: name, part: '', column: ''}), {'data-view': name})));
readState();
addEventListener('hashchange', () => {
  readState();
  render();
});
for (const query of ['(prefers-color-scheme: dark)', 'print'])
  matchMedia(query).addEventListener('change', () => render());
let shownWidth = innerWidth;
addEventListener('resize', () => {
  if (innerWidth === shownWidth) return;
  shownWidth = innerWidth;
  render();
});

// For the browser's console and for tests: the numbers that the page shows.
window.attnctl = {
  page,
  /** Returns the pattern of a head on an input as an array of rows; of words if `words` is true. */
  pattern: async (head, input = 0, words = false) => {
    const matrix = await attention[input].pattern(head, words);
    return Array.from({length: matrix.rows}, (_, row) => Array.from(matrix.row(row)));
  },
  /** Returns the largest error of a weight. */
  error: (input = 0) => attention[input].error,
  /** Returns the matrices of queries, keys and scores of a head, and the scale of its scores. */
  neurons: async (head, input = 0) => attention[input].neurons(head),
};
render();
