// The views of results: a number of each head, of each pair, profiles, pictures, tables, and what the page is
// about.

// Columns that tell apart several rows of one head or pair.
const splitting = new Set([
  'model', 'input', 'component', 'similarity', 'circuit',      'relation', 'direction',
  'kind',  'token', 'metric',    'measure',    'mention_type', 'offset',   'position',
  'first', 'last',  'rank',      'projection', 'table',        'key',      'column'
]);
// Columns that a view does not show first: counts, and the two numbers of a difference.
const later = new Set(['rows', 'rows_without', 'count', 'pairs', 'hits', 'sequences', 'order', 'a', 'b']);

/** Returns the number of a cell, also of true (1) and false (0); NaN if it has none. */
const numberOf = (cell) => typeof cell === 'number' ? cell : typeof cell === 'boolean' ? Number(cell) : NaN;
const hasNumbers = (table, name) =>
    table.rows.some((row) => Number.isFinite(numberOf(row[columnOf(table, name)])));

/**
 * Returns the columns of numbers, and of at most ten short texts such as roles, after those that name the
 * head.
 */
function valueColumns(table) {
  const last = Math.max(...['head', 'name', 'kv_head', 'name_b'].map((name) => columnOf(table, name)));
  return table.columns.map((column) => column.name).filter((name, index) => {
    if (index <= last || splitting.has(name) || name === 'rows') return false;
    const texts = new Set(table.rows.map((row) => row[index]).filter((cell) => typeof cell === 'string'));
    return hasNumbers(table, name) ||
        (texts.size > 0 && texts.size <= 10 && [...texts].every((text) => text.length <= 24));
  });
}

/** Returns the column that a view shows first. */
const firstColumn = (columns) => columns.find((name) => !later.has(name)) ?? columns[0];

/** Returns the tables with one or more rows per head, with their columns of values. */
const gridTables = () =>
    page.tables.filter((table) => columnOf(table, 'layer') >= 0 && columnOf(table, 'head') >= 0)
        .map((table) => ({table, columns: valueColumns(table)}))
        .filter(({columns}) => columns.length > 0);

/**
 * Splits the rows of a table by the columns of `splitting`, without those of `ignored` and those with one
 * value. Returns the rows by a title such as "relation nsubj, direction to_head".
 */
function partsOf(table, ignored = []) {
  const columns = table.columns.map((column, index) => ({name: column.name, index}))
                      .filter(
                          ({name, index}) => splitting.has(name) && !ignored.includes(name) &&
                              table.rows.some((row) => row[index] !== table.rows[0][index]));
  const parts = new Map();
  for (const row of table.rows) {
    const title = columns.map(({name, index}) => row[index] === null ? null : `${name} ${row[index]}`)
                      .filter((text) => text !== null)
                      .join(', ');
    if (!parts.has(title)) parts.set(title, []);
    parts.get(title).push(row);
  }
  return parts;
}

/**
 * Returns the part that the state names, or else the one with the largest count, or the first one with a
 * value.
 */
function chosenPart(table, parts, column) {
  if (parts.has(state.part)) return state.part;
  const place = columnOf(table, column), count = columnOf(table, 'count');
  const counts =
      [...parts]
          .filter(([, rows]) => rows.some((row) => row[place] !== null))
          .map(([title, rows]) => [title, count < 0 ? 0 : Math.max(...rows.map((row) => row[count] ?? 0))]);
  return counts.sort((a, b) => b[1] - a[1])[0]?.[0] ?? [...parts.keys()][0];
}

/** Makes the choices of a table, of a column, and of a part if there are several. */
function tableBar(tables, table, columns, column, parts, part) {
  const titles = [...parts.keys()];
  return make(
      'div', {class: 'bar'},
      choice(
          'Table', tables.map((each) => [each.name, each.name]), table.name, changeTable,
          {'data-state': 'table'}),
      stateChoice('Column', 'column', columns.map((name) => [name, name]), column),
      titles.length > 1 ?
          stateChoice('Part', 'part', titles.map((title) => [title, title || '(others)']), part) :
          null);
}

/** Returns the command that writes a table as CSV. An experiment has one table. */
const commandOfTable = (table) => command(
    ['--format', 'csv', ...(page.command[1] === 'experiment' ? [] : ['--table', table.name])], ['--plot']);

const omittedNote = (table) =>
    table.omitted > 0 ? note(`The page leaves out ${table.omitted} rows of this table; CSV has them.`) : null;

/** Returns the shortest beginnings of words that tell them apart, with at least two letters. */
function abbreviations(words) {
  const lengthOf = (word) => {
    for (let length = 2; length < word.length; ++length)
      if (words.filter((other) => other.startsWith(word.slice(0, length))).length === 1) return length;
    return word.length;
  };
  return words.map((word) => word.slice(0, lengthOf(word)));
}

async function gridView() {
  const tables = gridTables();
  const chosen = tables.find(({table}) => table.name === state.table) ?? tables[0], {table, columns} = chosen;
  const column = columns.includes(state.column) ? state.column : firstColumn(columns);
  const parts = partsOf(table), part = chosenPart(table, parts, column), rows = parts.get(part);
  const [value, head, layer, name] = [column, 'head', 'layer', 'name'].map((own) => columnOf(table, own));
  const ofComponent =
      table.rows.filter((row) => row[columnOf(table, 'component')] === rows[0][columnOf(table, 'component')]);
  const numbersOf = (index) => [...new Set(ofComponent.map((row) => row[index]))].sort((a, b) => a - b);
  const layers = numbersOf(layer), heads = numbersOf(head);
  const words = [...new Set(table.rows.map((row) => row[value]).filter((cell) => typeof cell === 'string'))],
        letters = abbreviations(words);
  const valueOf = (cell) => typeof cell === 'string' ? words.indexOf(cell) + 1 : numberOf(cell);
  const cells = new Float32Array(layers.length * heads.length).fill(NaN), found = new Map();  // rows by cell
  for (const row of rows) {
    const at = layers.indexOf(row[layer]) * heads.length + heads.indexOf(row[head]);
    if (!found.has(at)) cells[at] = valueOf(row[value]);
    found.set(at, [...(found.get(at) ?? []), row]);
  }
  const rowsAt = (target) => found.get(target.row * heads.length + target.column) ?? [];
  const nameOf = (row) => name >= 0 ? row[name] : `${row[layer]}.${row[head]}`;
  const lettersOf = (own) => (own ?? [])
                                 .filter((row) => row[value] !== null)
                                 .map((row) => letters[words.indexOf(row[value])])
                                 .join(' ');
  const describeRow = (row) => table.columns.map((each, index) => [each.name, row[index]])
                                   .filter(([, cell]) => cell !== null)
                                   .map(([own, cell]) => `${own}: ${shown(cell)}`)
                                   .join(', ');
  const wide = Math.floor((mainWidth() - 160) / heads.length);
  const figure = heatmapFigure({
    name: 'grid',
    label: `${column} of each head${part ? ` (${part})` : ''}`,
    matrix: new Matrix(layers.length, heads.length, cells),
    zeros: true,
    // All parts have one scale, unless they are different quantities.
    scale: fitScale(
        (columnOf(table, 'column') < 0 ? table.rows : rows).map((row) => valueOf(row[value])), column),
    rowLabels: layers.map(String),
    columnLabels: heads.map(String),
    xAxis: 'Head',
    yAxis: 'Layer',
    noBar: words.length > 0,
    texts: words.length > 0 ? Array.from(cells, (_, at) => lettersOf(found.get(at))) : null,
    cell: Math.max(14, Math.min(38, Math.floor(600 / layers.length))),
    cellWidth: Math.max(14, Math.min(54, wide)),
    describe: (target) => rowsAt(target).map(describeRow).join('\n') ||
        `Layer ${layers[target.row]} has no value for head ${heads[target.column]}`,
    act(target) {
      const [row] = rowsAt(target);
      if (row) toggleHead(nameOf(row));
    },
    overlay(painter, cellBox) {
      const marked = new Set(selectedHeads());
      for (const [at, [row]] of found)
        if (marked.has(nameOf(row)))
          painter.rect(
              ...cellBox({row: Math.floor(at / heads.length), column: at % heads.length}), null, ink().mark,
              3);
    },
    command: () => command(['--plot', `${table.name}.${column}`, '-o', 'heads.svg'], ['--include']),
  });
  return [
    tableBar(tables.map((each) => each.table), table, columns, column, parts, part),
    definitionOf(table.columns[value]), omittedNote(table), selectionBar(), figureElement(figure),
    words.length > 0 ? note(words.map((word, i) => `${letters[i]}: ${word}`).join(', ')) : null
  ];
}

/** The columns over which a table of heads has a profile: one number per head for each of their values. */
const profileAxes = ['offset', 'first', 'rank'];

/** Returns the tables with a profile of each head. */
const profileTables = () => gridTables()
                                .map(({table, columns}) => ({
                                       table,
                                       columns: columns.filter((name) => hasNumbers(table, name)),
                                       axis: profileAxes.find((name) => columnOf(table, name) >= 0)
                                     }))
                                .filter(
                                    ({table, columns, axis}) => axis !== undefined && columns.length > 0 &&
                                        columnOf(table, 'name') >= 0);

async function profileView() {
  const tables = profileTables();
  const chosen = tables.find(({table}) => table.name === state.table) ?? tables[0],
        {table, columns, axis} = chosen;
  const column = columns.includes(state.column) ? state.column : firstColumn(columns);
  const parts = partsOf(table, [axis, 'last']), part = chosenPart(table, parts, column),
        rows = parts.get(part);
  const [name, x, y, uniform] = ['name', axis, column, 'uniform'].map((own) => columnOf(table, own));
  const all = [...new Set(rows.map((row) => row[name]))];
  const marked = selectedHeads().filter((own) => all.includes(own)),
        heads = marked.length > 0 ? marked.slice(0, 8) : all.slice(0, 4);
  const places = [...new Set(rows.map((row) => row[x]))].sort((a, b) => a - b);
  const rowOf = new Map(rows.map((row) => [`${row[name]} ${row[x]}`, row]));
  const cell = (own, place, index) => rowOf.get(`${own} ${place}`)?.[index] ?? null;
  const hasNull = uniform >= 0 && column === 'weight';
  const nullAt = (place) => {  // mean of the null values of the shown heads
    const values = heads.map((own) => cell(own, place, uniform)).filter((number) => number !== null);
    return values.length > 0 ? values.reduce((a, b) => a + b) / values.length : null;
  };
  const profile = {
    columns: [axis, ...heads, ...(hasNull ? ['uniform'] : [])].map((own) => ({name: own})),
    rows: places.map(
        (place) => [place, ...heads.map((own) => cell(own, place, y)), ...(hasNull ? [nullAt(place)] : [])])
  };
  const figure = chartFigure(
      {
        title: `${column} by ${axis}${part ? ` (${part})` : ''}`,
        x: axis,
        y: profile.columns.slice(1).map((each) => each.name),
        nullColumn: 'uniform',
        x_axis: axis === 'first' ? 'distance from' : axis,
        y_axis: column,
        log_x: axis === 'first' && places[0] > 0
      },
      profile, 'profile', () => commandOfTable(table));
  return [
    tableBar(tables.map((each) => each.table), table, columns, column, parts, part),
    definitionOf(table.columns[y]), omittedNote(table), selectionBar(),
    marked.length === 0 ?
        note('Select heads in another view to compare their profiles; these are the first ones.') :
        marked.length > heads.length ?
        note(`The first ${heads.length} of ${marked.length} selected heads are drawn.`) :
        null,
    figureElement(figure)
  ];
}

const pairTables = () => page.tables.filter(
    (table) => columnOf(table, 'name_a') >= 0 && columnOf(table, 'name_b') >= 0 &&
        valueColumns(table).some((name) => hasNumbers(table, name)));

/** Shows a number for each pair of heads as a heatmap. */
async function pairView() {
  const tables = pairTables(), table = tables.find((each) => each.name === state.table) ?? tables[0];
  const columns = valueColumns(table).filter((name) => hasNumbers(table, name));
  const column = columns.includes(state.column) ? state.column : firstColumn(columns);
  const parts = partsOf(table), part = chosenPart(table, parts, column), rows = parts.get(part);
  const value = columnOf(table, column), heads = new Map();  // [layer, head] by name
  for (const side of ['_a', '_b']) {
    const [name, layer, head] = ['name', 'layer', 'head'].map((own) => columnOf(table, own + side));
    for (const row of rows) heads.set(row[name], [row[layer], row[head]]);
  }
  const names = [...heads.keys()].sort(
      (a, b) => heads.get(a)[0] - heads.get(b)[0] || heads.get(a)[1] - heads.get(b)[1]);
  const places = new Map(names.map((name, index) => [name, index])),
        numbers = new Float32Array(names.length ** 2).fill(NaN);
  const directed = table.name === 'composition';  // from an earlier to a later head
  const [a, b] = [columnOf(table, 'name_a'), columnOf(table, 'name_b')];
  for (const row of rows) {
    const i = places.get(row[a]), j = places.get(row[b]);
    if (i === j) continue;
    numbers[i * names.length + j] = numberOf(row[value]);
    if (!directed && Number.isNaN(numbers[j * names.length + i]))
      numbers[j * names.length + i] = numberOf(row[value]);
  }
  const figure = heatmapFigure({
    name: 'pairs',
    label: `${column} of pairs of heads${part ? ` (${part})` : ''}`,
    matrix: new Matrix(names.length, names.length, numbers),
    scale: fitScale(numbers, column),
    rowLabels: names,
    columnLabels: names,
    rowHeads: names,
    columnHeads: names,
    zeros: true,
    xAxis: directed ? 'Later head' : 'Head',
    yAxis: directed ? 'Earlier head' : 'Head',
    cell: Math.max(6, Math.min(34, Math.floor((mainWidth() - 150) / names.length))),
    command: () => commandOfTable(table)
  });
  const apart = numbers.filter(Number.isNaN).length > names.length && table.name === 'subspace_similarity';
  return [
    tableBar(tables, table, columns, column, parts, part), definitionOf(table.columns[value]),
    omittedNote(table), selectionBar(), figureElement(figure),
    apart ? note('Grey pairs were not compared; --across-layers compares the heads of all layers.') : null
  ];
}

/** Returns what the numbers of a column mean. */
function definitionOf(column) {
  const rows = [
    ['Meaning', column.meaning], ['Unit', column.unit], ['Range', column.range], ['Null value', column.null],
    ['Source', column.source]
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
  const commandOf = () => command([...words, '-o', `${picture.name}.svg`], ['--plot']);
  const most = picture.heatmaps?.length > 1 ? Math.min(560, mainWidth()) : mainWidth();
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
      zeros: true,
      texts: picture.cell_texts?.length > 0 ? picture.cell_texts : null,
      cell: Math.max(4, Math.min(30, Math.floor((most - 150) / Math.max(...heatmap.shape))))
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
  const first = table.rows[0];
  const used = table.columns.map((_, index) => index).filter((index) => {
    const constant =
        table.columns[index].name === 'model' && table.rows.every((row) => row[index] === first[index]);
    return !constant && table.rows.some((row) => row[index] !== null);
  });
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
            'Copy the command', () => copyText(commandOfTable(table), 'the command'),
            {'data-tool': 'command'})),
    note(`${rows.length} of ${table.rows.length} rows${
        table.omitted > 0 ? `; the page leaves out ${table.omitted} more rows, which CSV has` : ''}`),
    about,
    make(
        'div', {
          class: 'scroll',
          'data-scroll': table.name,
          tabindex: 0,
          role: 'region',
          'aria-label': `Table ${table.name}`
        },
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
              changeTable(name);
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
    make('h2', {}, 'Command'), make('pre', {}, command([])),
    button('Copy the command', () => copyText(command([]), 'the command'), {'data-tool': 'command'}),
    ...(page.notes.length > 0 ?
            [make('h2', {}, 'Results in words'), ...page.notes.map((text) => note(text))] :
            []),
    ...(page.warnings.length > 0 ? [make('h2', {}, 'Warnings'), ...page.warnings.map((text) => note(text))] :
                                   []),
    ...records.flatMap(([name, record]) => [make('h2', {}, name), make('dl', {}, ...rows(record))]),
    make('h2', {}, 'This page'),
    note(
        'The page works without a network and stores nothing. Its address holds what it shows: copy it to share a view. Keys: Tab goes to a figure, the arrow keys move in it, Enter selects.'),
    note(
        'Numbers in tables have seven significant digits. Weights, scores and vectors have the error that each view states.')
  ];
}
