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

function controls() {
  const list = [];
  if (attention.length > 1)
    list.push(choice(
        'Input',
        attention.map(
            (each, index) =>
                [String(index),
                 shorten(
                     [each.data.input, each.data.component, each.data.text].filter((text) => text).join(': '),
                     60)]),
        state.input, (value) => change({input: value, query: '0', key: ''}), {'data-state': 'input'}));
  if (currentAttention()?.data.words)
    list.push(stateChoice('Show', 'unit', [['token', 'tokens'], ['word', 'words']]));
  list.push(stateChoice('Colours', 'theme', [['', 'as the system'], ['light', 'light'], ['dark', 'dark']]));
  return list;
}

let shownTimes = 0;  // only the last of several changes is shown

render = async () => {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  theme = state.theme || (dark && !matchMedia('print').matches ? 'dark' : 'light');
  document.documentElement.classList.toggle('dark', theme === 'dark');
  const [name, , build] = views.find(([each]) => each === state.view) ?? views[0];
  for (const item of document.querySelectorAll('#views button')) {
    if (item.dataset.view === name)
      item.setAttribute('aria-current', 'page');
    else
      item.removeAttribute('aria-current');
  }
  const focused = document.activeElement?.closest(
      '[data-state], [data-figure], [data-sort], [data-head], [data-query], [data-key]');
  const again = focused &&
      [...focused.attributes].find((each) => /^data-(state|figure|sort|head|query|key)$/.test(each.name));
  const time = ++shownTimes;
  let elements;
  try {
    elements = await build();
  } catch (error) {
    console.error(error);
    elements = [note(`This view cannot be shown: ${error.message}`)];
  }
  if (time !== shownTimes) return;
  document.getElementById('controls').replaceChildren(...controls());
  const main = document.getElementById('main');
  main.replaceChildren(...elements.filter((element) => element !== null && element !== undefined));
  main.dataset.view = name;
  if (again)
    document.querySelector(`[${again.name}="${CSS.escape(again.value)}"]`)?.focus({preventScroll: true});
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

// For the browser's console and for tests: the numbers that the page shows.
window.attnctl = {
  page,
  pattern: async (head, input = 0, words = false) => {
    const matrix = await attention[input].pattern(head, words);
    return Array.from({length: matrix.rows}, (_, row) => Array.from(matrix.row(row)));
  },
  error: (input = 0) => attention[input].error,
  neurons: async (head, input = 0) => attention[input].neurons(head),
};
render();
