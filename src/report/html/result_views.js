// The views of results: a grid of heads for each column, pictures, tables, and what the page is about.

const rowsHaveNumbers = (table, name) =>
    table.rows.some((row) => typeof row[columnOf(table, name)] === 'number');

/**
 * Returns the columns after those that name the head: of numbers, and of texts with at most ten values, such
 * as roles.
 */
const gridColumns = (table) => table.columns.map((column) => column.name).filter((name, index) => {
  if (index <= Math.max(...['head', 'name', 'kv_head', 'name_b'].map((own) => columnOf(table, own))))
    return false;
  const cells = new Set(table.rows.map((row) => row[index]).filter((cell) => cell !== null));
  return [...cells].some((cell) => typeof cell === 'number') || (cells.size > 0 && cells.size <= 10);
});

/** Returns the tables that have one or more rows per head, with the columns that a grid can show. */
function gridTables() {
  const keys = new Set(['offset', 'position', 'first', 'last', 'rank', 'rows']);
  return page.tables.filter((table) => columnOf(table, 'layer') >= 0 && columnOf(table, 'head') >= 0)
      .map((table) => ({table, columns: gridColumns(table).filter((name) => !keys.has(name))}))
      .filter(({columns}) => columns.length > 0);
}

/**
 * Splits the rows of a table by the columns that tell rows of one head apart, such as a relation or an
 * offset.
 */
function partsOf(table, column) {
  const place = columnOf(table, column),
        ofHeads = new Set(['layer', 'head', 'name'].flatMap((own) => [own, own + '_a', own + '_b']));
  const numbered = new Set(['offset', 'position', 'first', 'last', 'rank']);
  const splitting =
      table.columns.map((each, index) => ({name: each.name, index}))
          .filter(
              ({name: own, index}) => index < place && !ofHeads.has(own) &&
                  table.rows.some((row) => row[index] !== table.rows[0][index]) &&
                  (numbered.has(own) || table.rows.some((row) => typeof row[index] === 'string')));
  const parts = new Map();
  for (const row of table.rows) {
    const title = splitting.map(({name: own, index}) => row[index] === null ? null : `${own} ${row[index]}`)
                      .filter((text) => text !== null)
                      .join(', ');
    if (!parts.has(title)) parts.set(title, []);
    parts.get(title).push(row);
  }
  return parts;
}

async function gridView() {
  const tables = gridTables();
  const chosen = tables.find(({table}) => table.name === state.table) ?? tables[0], {table} = chosen;
  const tells = (own) => table.rows.some(
      (row) => row[columnOf(table, own)] !== null &&
          !Number.isInteger(row[columnOf(table, own)]));  // not only counts
  const column =
      chosen.columns.includes(state.column) ? state.column : chosen.columns.find(tells) ?? chosen.columns[0];
  const parts = partsOf(table, column), titles = [...parts.keys()];
  const title = parts.has(state.part) ? state.part : titles[0];
  const rows = parts.get(title),
        [value, head, layer, name] = [column, 'head', 'layer', 'name'].map((own) => columnOf(table, own));
  const numbers = (index) => [...new Set(rows.map((row) => row[index]))].sort((a, b) => a - b);
  const layers = numbers(layer), heads = numbers(head);
  const words = [...new Set(table.rows.map((row) => row[value]).filter((cell) => typeof cell === 'string'))];
  const numberOf = (cell) => typeof cell === 'number' ? cell :
      words.includes(cell)                            ? words.indexOf(cell) + 1 :
                                                        NaN;
  const cells = new Float32Array(layers.length * heads.length).fill(NaN), found = new Map();
  for (const row of rows) {
    const at = layers.indexOf(row[layer]) * heads.length + heads.indexOf(row[head]);
    if (found.has(at)) continue;  // the first of several roles
    cells[at] = numberOf(row[value]);
    found.set(at, row);
  }
  const rowAt = (target) => found.get(target.row * heads.length + target.column);
  const nameOf = (row) => name >= 0 ? row[name] : `${row[layer]}.${row[head]}`;
  const figure = heatmapFigure({
    name: 'grid',
    label: `${column} of each head${title ? ` (${title})` : ''}`,
    matrix: new Matrix(layers.length, heads.length, cells),
    scale: fitScale(table.rows.map((row) => numberOf(row[value])), column),
    rowLabels: layers.map(String),
    columnLabels: heads.map(String),
    xAxis: 'Head',
    yAxis: 'Layer',
    noBar: words.length > 0,
    texts: words.length > 0 ?
        Array.from(cells, (cell) => Number.isFinite(cell) ? words[cell - 1].slice(0, 2) : '') :
        null,
    cell: Math.max(14, Math.min(38, Math.floor(600 / layers.length))),
    cellWidth: Math.max(14, Math.min(44, Math.floor(900 / heads.length))),
    describe(target) {
      const row = rowAt(target);
      if (!row) return `Layer ${layers[target.row]} has no head ${heads[target.column]}`;
      return table.columns.map((each, index) => [each.name, row[index]])
          .filter(([, cell]) => cell !== null)
          .map(([own, cell]) => `${own}: ${shown(cell)}`)
          .join(', ');
    },
    act(target) {
      const row = rowAt(target);
      if (row) toggleHead(nameOf(row));
    },
    overlay(painter, cellBox) {
      const marked = new Set(selectedHeads());
      for (const [at, row] of found)
        if (marked.has(nameOf(row)))
          painter.rect(
              ...cellBox({row: Math.floor(at / heads.length), column: at % heads.length}), null, ink().mark,
              3);
    },
    command: () => command('--plot', `${table.name}.${column}`, '-o', 'heads.svg'),
  });
  return [
    make(
        'div', {class: 'bar'},
        choice(
            'Table', tables.map(({table: each}) => [each.name, each.name]), table.name,
            (own) => change({table: own, column: '', part: ''}), {'data-state': 'table'}),
        stateChoice('Column', 'column', chosen.columns.map((own) => [own, own]), column),
        titles.length > 1 ? stateChoice('Part', 'part', titles.map((own) => [own, own]), title) : null),
    definitionOf(table.columns[value]), selectionBar(), figureElement(figure),
    words.length > 0 ? note(words.map((word) => `${word.slice(0, 2)}: ${word}`).join(', ')) : null
  ];
}

/** The columns over which a table of heads has a profile: one number per head for each of their values. */
const profileAxes = ['offset', 'first', 'rank'];

/** Returns the tables with a profile of each head. */
const profileTables = () =>
    gridTables()
        .map(({table,
               columns}) => ({table, columns, axis: profileAxes.find((name) => columnOf(table, name) >= 0)}))
        .filter(({table, axis}) => axis !== undefined && columnOf(table, 'name') >= 0);

async function profileView() {
  const tables = profileTables();
  const chosen = tables.find(({table}) => table.name === state.table) ?? tables[0], {table, axis} = chosen;
  const columns = chosen.columns.filter((own) => rowsHaveNumbers(table, own));
  const column = columns.includes(state.column) ?
      state.column :
      columns.find((name) => name !== 'count' && name !== 'pairs') ?? columns[0];
  const [name, x, y, uniform] = ['name', axis, column, 'uniform'].map((own) => columnOf(table, own));
  const parts = partsOf(
      {
        ...table,
        columns: table.columns.map(
            (each) =>
                profileAxes.includes(each.name) || each.name === 'last' ? {...each, name: 'layer'} : each)
      },
      column);
  const title = parts.has(state.part) ? state.part : [...parts.keys()][0], rows = parts.get(title);
  const all = [...new Set(rows.map((row) => row[name]))];
  const marked = selectedHeads().filter((own) => all.includes(own));
  const heads = marked.length > 0 ? marked.slice(0, 8) : all.slice(0, 4);
  const places = [...new Set(rows.map((row) => row[x]))].sort((a, b) => a - b);
  const cell = (own, place, index) =>
      rows.find((row) => row[name] === own && row[x] === place)?.[index] ?? null;
  const hasNull = uniform >= 0 && column !== 'uniform';
  const profile = {
    columns: [axis, ...heads, ...(hasNull ? ['uniform'] : [])].map((own) => ({name: own})),
    rows: places.map(
        (place) =>
            [place, ...heads.map((own) => cell(own, place, y)),
             ...(hasNull ? [cell(heads[0], place, uniform)] : [])])
  };
  const figure = chartFigure(
      {
        title: `${column} by ${axis}${title ? ` (${title})` : ''}`,
        x: axis,
        y: profile.columns.slice(1).map((each) => each.name),
        x_axis: axis,
        y_axis: column,
        log_x: axis === 'first' && places[0] > 0
      },
      profile, 'profile', () => command('--format', 'csv', '--table', table.name));
  return [
    make(
        'div', {class: 'bar'},
        choice(
            'Table', tables.map(({table: each}) => [each.name, each.name]), table.name,
            (own) => change({table: own, column: '', part: ''}), {'data-state': 'table'}),
        stateChoice('Column', 'column', columns.map((own) => [own, own]), column),
        parts.size > 1 ? stateChoice('Part', 'part', [...parts.keys()].map((own) => [own, own]), title) :
                         null),
    definitionOf(table.columns[y]), selectionBar(),
    marked.length === 0 ?
        note('Select heads in another view to compare their profiles; these are the first ones.') :
        null,
    figureElement(figure)
  ];
}

const pairTables = () =>
    page.tables.filter((table) => columnOf(table, 'name_a') >= 0 && columnOf(table, 'name_b') >= 0);

/** Shows a number for each pair of heads as a heatmap. */
async function pairView() {
  const tables = pairTables(), table = tables.find((each) => each.name === state.table) ?? tables[0];
  const columns = gridColumns(table).filter((name) => rowsHaveNumbers(table, name));
  const column = columns.includes(state.column) ? state.column : columns[0];
  const [a, b, value] = ['name_a', 'name_b', column].map((own) => columnOf(table, own));
  const parts = partsOf(table, column), title = parts.has(state.part) ? state.part : [...parts.keys()][0],
        rows = parts.get(title);
  const names = [...new Set(rows.flatMap((row) => [row[a], row[b]]))];
  const numbers = new Float32Array(names.length ** 2).fill(NaN),
        places = new Map(names.map((name, index) => [name, index]));
  for (const row of rows) {
    if (typeof row[value] !== 'number') continue;
    const [i, j] = [places.get(row[a]), places.get(row[b])];
    if (i !== j) numbers[i * names.length + j] = row[value];
    if (i !== j && Number.isNaN(numbers[j * names.length + i])) numbers[j * names.length + i] = row[value];
  }
  const figure = heatmapFigure({
    name: 'pairs',
    label: `${column} of pairs of heads${title ? ` (${title})` : ''}`,
    matrix: new Matrix(names.length, names.length, numbers),
    scale: fitScale(numbers, column),
    rowLabels: names,
    columnLabels: names,
    rowHeads: names,
    columnHeads: names,
    xAxis: 'Head',
    yAxis: 'Head',
    command: () => command('--format', 'csv', '--table', table.name)
  });
  return [
    make(
        'div', {class: 'bar'},
        choice(
            'Table', tables.map((each) => [each.name, each.name]), table.name,
            (own) => change({table: own, column: '', part: ''}), {'data-state': 'table'}),
        stateChoice('Column', 'column', columns.map((own) => [own, own]), column),
        parts.size > 1 ? stateChoice('Part', 'part', [...parts.keys()].map((own) => [own, own]), title) :
                         null),
    definitionOf(table.columns[value]), selectionBar(), figureElement(figure)
  ];
}

/** Returns a paragraph with what the numbers of a column mean. */
function definitionOf(column) {
  const rows = [
    ['Meaning', column.meaning], ['Unit', column.unit], ['Range', column.range],
    ['Without the behaviour', column.null], ['Source', column.source]
  ].filter(([, text]) => text);
  if (rows.length === 0) return null;
  return make(
      'dl', {'data-definition': column.name},
      ...rows.flatMap(([title, text]) => [make('dt', {}, title), make('dd', {}, text)]));
}

function pictureElements(picture) {
  const analysis = picture.name === 'similarity' ? 'weights' : picture.name;
  const words = ['analyze', 'weights'].includes(page.command[1]) ?
      (picture.name === 'attention_from' ? [] : ['--include', analysis]) :
      page.command[1] === 'experiment' ? ['--picture', picture.name] :
                                         [];
  const commandOf = () => command(...words, '-o', `${picture.name}.svg`);
  const lines = (picture.subtitle ?? []).map((text) => note(text));
  if (picture.kind === 'charts') {
    return [
      ...lines,
      make(
          'div', {class: 'figures'},
          ...picture.charts.map(
              (chart, index) =>
                  figureElement(chartFigure(chart, picture.table, `${picture.name}-${index}`, commandOf))))
    ];
  }
  const scale = new Scale(picture.scale);
  const figures = picture.heatmaps.map((heatmap, index) => {
    const matrix = new Matrix(
        heatmap.shape[0], heatmap.shape[1], Float32Array.from(heatmap.values, (value) => value ?? NaN));
    return figureElement(heatmapFigure({
      name: `${picture.name}-${index}`,
      label: heatmap.title || picture.title,
      matrix,
      scale,
      rowLabels: heatmap.y_labels,
      columnLabels: heatmap.x_labels,
      rowHeads: heatmap.y_heads,
      columnHeads: heatmap.x_heads,
      xAxis: heatmap.x_axis,
      yAxis: heatmap.y_axis,
      tree: heatmap.tree,
      command: commandOf,
      texts: picture.cell_texts?.length > 0 ? picture.cell_texts : null,
      cell: Math.max(
          4, Math.min(30, Math.floor((picture.heatmaps.length > 1 ? 420 : 760) / Math.max(...heatmap.shape))))
    }));
  });
  const groups = picture.heatmaps.find((each) => each.tree?.groups?.length > 0)?.tree.groups ?? [];
  return [
    ...lines,
    groups.length > 0 ? note(`Colours above the columns: ${groups.join(', ')}, in this order.`) : null,
    ...(picture.legend ?? []).filter((text) => text).map((text) => note(text)),
    make('div', {class: 'figures'}, ...figures)
  ];
}

async function pictureView() {
  const chosen = page.pictures.find((picture) => picture.name === state.picture) ?? page.pictures[0];
  return [
    page.pictures.length > 1 ?
        make(
            'div', {class: 'bar'},
            stateChoice(
                'Picture', 'picture',
                page.pictures.map((picture) => [picture.name, picture.title || picture.name]), chosen.name)) :
        null,
    make('h2', {}, chosen.title), selectionBar(), ...pictureElements(chosen)
  ];
}

const rowsAtOnce = 400;
let rowsShown = rowsAtOnce;

function tableElement(table) {
  const name = columnOf(table, 'name');
  const [sortName, direction] = state.sort.split(':');
  const sort = columnOf(table, sortName);
  const filter = state.filter.toLowerCase();
  let rows = table.rows.filter(
      (row) =>
          filter === '' || row.some((cell) => cell !== null && String(cell).toLowerCase().includes(filter)));
  if (sort >= 0) {
    const sign = direction === 'up' ? 1 : -1;
    const compare = (a, b) =>
        typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
    rows = [...rows].sort(
        (a, b) => a[sort] === null ? (b[sort] === null ? 0 : 1) :
            b[sort] === null       ? -1 :
                                     sign * compare(a[sort], b[sort]));
  }
  const used =
      table.columns.map((_, index) => index).filter((index) => table.rows.some((row) => row[index] !== null));
  const numeric = table.columns.map((_, index) => table.rows.some((row) => typeof row[index] === 'number'));
  const about = make('div', {'aria-live': 'polite'});
  const head = make('tr', {}, ...used.map((index) => {
    const column = table.columns[index];
    const sorted = sort === index ? (direction === 'up' ? 'ascending' : 'descending') : null;
    return make(
        'th', {scope: 'col', 'aria-sort': sorted},
        button(
            column.name +
                (sorted === 'ascending' ? ' ▲' :
                     sorted             ? ' ▼' :
                                          ''),
            () => change({sort: `${column.name}:${sorted === 'descending' ? 'up' : 'down'}`}),
            {'data-sort': column.name}),
        column.meaning ?
            button(
                '?', () => about.replaceChildren(make('h3', {}, column.name), definitionOf(column) ?? ''),
                {'aria-label': `What ${column.name} means`, 'data-explain': column.name}) :
            null);
  }));
  const chosen = new Set(selectedHeads());
  const body = make(
      'tbody', {},
      ...rows.slice(0, rowsShown)
          .map(
              (row) => make(
                  'tr', {class: name >= 0 && chosen.has(row[name]) ? 'selected' : null},
                  ...used.map((index) => {
                    const cell = row[index];
                    if (index === name && columnOf(table, 'head') >= 0)
                      return make('td', {}, button(String(cell), () => toggleHead(cell), {
                                    'aria-pressed': chosen.has(cell),
                                    'aria-label': `Select head ${cell}`,
                                    'data-head': cell
                                  }));
                    return make(
                        'td', {
                          class: numeric[index]        ? 'number' :
                              String(cell).length > 40 ? 'long' :
                                                         null,
                          title: typeof cell === 'number' ? String(cell) : null
                        },
                        shown(cell));
                  }))));
  const more = rows.length > rowsShown ?
      button(
          `Show ${Math.min(rowsAtOnce, rows.length - rowsShown)} more of ${rows.length} rows`,
          () => {
            rowsShown += rowsAtOnce;
            render();
          },
          {'data-more': ''}) :
      null;
  const copied = () => [table.columns.map((column) => column.name), ...rows]
                           .map((row) => row.map((cell) => cell ?? '').join('\t'))
                           .join('\n') +
      '\n';
  return [
    make(
        'div', {class: 'bar tools'},
        button('Copy the rows', () => copyText(copied(), `${rows.length} rows`), {'data-tool': 'rows'}),
        button(
            'Copy the command',
            () => copyText(command('--format', 'csv', '--table', table.name), 'the command'),
            {'data-tool': 'command'})),
    note(`${rows.length} of ${table.rows.length} rows${
        table.omitted > 0 ? `; the page leaves out ${table.omitted} more rows, which CSV has` : ''}`),
    about,
    make(
        'div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `Table ${table.name}`},
        make('table', {'data-table': table.name}, make('thead', {}, head), body)),
    more
  ];
}

async function tableView() {
  const table = page.tables.find((each) => each.name === state.table) ?? page.tables[0];
  const input = make('input', {
    type: 'search',
    value: state.filter,
    'data-state': 'filter',
    onchange: () => change({filter: input.value})
  });
  return [
    make(
        'div', {class: 'bar'},
        choice(
            'Table', page.tables.map((each) => [each.name, each.name]), table.name,
            (name) => {
              rowsShown = rowsAtOnce;
              change({table: name, sort: '', filter: ''});
            },
            {'data-state': 'table'}),
        make('label', {}, 'Rows that contain', input)),
    selectionBar(), ...tableElement(table)
  ];
}

async function aboutView() {
  const rows = (record) =>
      Object.entries(record)
          .filter(([, value]) => value !== null && typeof value !== 'object')
          .flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, String(value))]);
  const records =
      Object.entries(page.about)
          .filter(([, value]) => value !== null && typeof value === 'object' && !Array.isArray(value));
  return [
    make('h2', {}, 'Command'), make('pre', {}, command()),
    button('Copy the command', () => copyText(command(), 'the command'), {'data-tool': 'command'}),
    ...(page.notes.length > 0 ?
            [make('h2', {}, 'Results in words'), ...page.notes.map((text) => note(text))] :
            []),
    ...(page.warnings.length > 0 ? [make('h2', {}, 'Warnings'), ...page.warnings.map((text) => note(text))] :
                                   []),
    ...records.flatMap(([name, record]) => [make('h2', {}, name), make('dl', {}, ...rows(record))]),
    make('h2', {}, 'This page'),
    note(
        'The page works without a network and keeps nothing. Its address holds what it shows: copy it to share a view. Keys: Tab goes to a figure, the arrow keys move in it, Enter selects.'),
    note(
        'Numbers in tables have seven significant digits. Weights, scores and vectors have the error that each view states.')
  ];
}
