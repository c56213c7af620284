// The views of attention patterns: model, matrix, heads, query and neurons. A view returns its elements.

const isNorm = page.weighting === 'norm';

function inputName(current) {
  const parts = [page.attention.length > 1 ? `input ${current.data.input}` : '', current.data.component];
  const text = parts.filter((part) => part !== '').join(', ');
  return text === '' ? '' : ` (${text})`;
}

function storedNote(current) {
  const {bits, kept} = current.data.layers[0].patterns;
  const rest = kept > 0 ?
      ` Only the ${kept} largest weights of each query are stored; the others are shown as 0.` :
      '';
  return note(
      `Weights are stored in ${bits} bits. A shown weight differs from the computed one by at most ` +
      `${current.error.toExponential(1)}.${rest}`);
}

function patternScale() {
  const high = isNorm ? Math.max(...currentAttention().data.layers.map((layer) => layer.highest)) : 1;
  return new Scale({
    low: 0,
    high: high > 0 ? high : 1,
    label: page.weighting ? `Weight (${page.weighting})` : 'Attention weight'
  });
}

/** Returns the table and the place of a column "entropy" (of the table of heads) or "TABLE.COLUMN". */
function findColumn(column) {
  const [tableName, name] = column.includes('.') ? column.split('.') : ['heads', column];
  const table = page.tables.find((each) => each.name === tableName);
  return {table, place: table ? columnOf(table, name) : -1};
}

/** Returns the values of a column by the name of the head, for colours and orders. */
function headValues(column) {
  const {table, place} = findColumn(column), found = new Map();
  if (place < 0) return found;
  const name = columnOf(table, 'name'), input = columnOf(table, 'input');
  for (const row of table.rows) {
    const shownInput = input < 0 || String(row[input]) === currentAttention().data.input;
    if (shownInput && !found.has(row[name])) found.set(row[name], row[place]);  // the first of several roles
  }
  return found;
}

/** Returns the columns by which heads can be coloured and sorted: those of tables with one row per head. */
function headColumns() {
  const columns = [];
  for (const {table, columns: own} of gridTables()) {
    if (columnOf(table, 'name') < 0 || partsOf(table, ['input']).size > 1) continue;
    for (const name of own) columns.push(table.name === 'heads' ? name : `${table.name}.${name}`);
  }
  return columns;
}

/** Compares two cells for sorting: larger numbers and earlier texts first, undefined cells last. */
function compareCells(a, b) {
  const missing = (cell) => cell === null || cell === undefined;
  if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b));
  return typeof a === 'number' && typeof b === 'number' ? b - a : String(a).localeCompare(String(b));
}

async function modelView() {
  const current = currentAttention();
  const choices = [['', '(none)'], ...headColumns().map((name) => [name, name])];
  const sorted = state.order !== '', byColumn = sorted ? headValues(state.order) : new Map();
  const heads = [...current.heads];
  if (sorted) heads.sort((a, b) => compareCells(byColumn.get(a.name), byColumn.get(b.name)));
  const numbers = [...new Set(current.heads.map((head) => head.head))].sort((a, b) => a - b);
  const layers = current.data.layers.map((layer) => layer.layer);
  const colours = state.colour ? headValues(state.colour) : new Map();
  const numeric = [...colours.values()].filter((value) => typeof value === 'number');
  const colourScale = fitScale(numeric, state.colour);
  const words = [...new Set([...colours.values()].filter((value) => typeof value === 'string'))];
  const left = 62, top = 34, right = state.colour ? 20 + Math.max(colourBarWidth(colourScale), 90) : 10;
  const columns = sorted ?
      Math.max(1, Math.min(heads.length, Math.floor((Math.max(mainWidth(), 320) - left - right) / 92))) :
      numbers.length;
  const size =
      sorted ? 80 : Math.max(34, Math.min(90, Math.floor((mainWidth() - left - right) / columns) - 8));
  const step = sorted ? 92 : size + 8, high = size + (sorted ? 24 : 8);
  const placeOf = (head, index) => sorted ?
      {column: index % columns, row: Math.floor(index / columns)} :
      {column: numbers.indexOf(head.head), row: layers.indexOf(head.layer)};
  const places = heads.map(placeOf);
  const indexAt = new Map(places.map(({row, column}, index) => [`${row},${column}`, index]));
  const rows = Math.max(...places.map(({row}) => row)) + 1;
  const boxOf = (index) => [left + places[index].column * step, top + places[index].row * high];
  const scale = patternScale(), patterns = new Map();
  const several = page.attention.length > 1;
  const figure = {
    name: 'model',
    label: `Patterns of all heads: queries down, keys across${inputName(current)}`,
    width: left + columns * step + right,
    height: top + rows * high + 10,
    hint: 'Click a head to open its matrix. Shift and click, or the key s, selects it in all views.',
    first: 0,
    has: (index) => index < heads.length,
    paint(painter) {
      const chosen = new Set(selectedHeads());
      if (!sorted) {
        numbers.forEach(
            (head, column) => painter.text(
                left + column * step + size / 2, 22, String(head), {size: 11, anchor: 'middle'}));
        layers.forEach(
            (layer, row) => painter.text(
                left - 10, top + row * high + size / 2, String(layer), {size: 11, anchor: 'end'}));
        painter.text(left, 8, 'Head', {size: 11, colour: ink().dim});
        painter.text(8, top + 8, 'Layer', {size: 11, colour: ink().dim});
      }
      heads.forEach((head, index) => {
        const [x, y] = boxOf(index), matrix = patterns.get(head.name), value = colours.get(head.name);
        if (matrix) painter.cells(x, y, size, size, matrix, scale);
        const edge = typeof value === 'number' ? colourScale.colour(value) :
            words.includes(value)              ? colourOfHead(words.indexOf(value)) :
                                                 ink().line;
        painter.rect(x - 2, y - 2, size + 4, size + 4, null, edge, state.colour ? 4 : 1);
        if (chosen.has(head.name)) painter.rect(x - 4, y - 4, size + 8, size + 8, null, ink().mark, 2);
        if (sorted)
          painter.text(
              x + size / 2, y + size + 10, `${head.name} ${shown(byColumn.get(head.name))}`,
              {size: 10, anchor: 'middle'});
      });
      const after = left + columns * step + 8;
      if (numeric.length > 0)
        paintColourBar(painter, after, top, Math.max(90, Math.min(200, rows * high)), colourScale);
      else
        words.forEach(
            (word, i) => painter.text(
                after, top + 8 + 16 * i, shorten(word, 14), {size: 11, colour: colourOfHead(i)}));
    },
    mark(painter, index) {
      const [x, y] = boxOf(index);
      painter.rect(x - 3, y - 3, size + 6, size + 6, null, ink().text, 2);
    },
    hit: (x, y) => indexAt.get(`${Math.floor((y - top) / high)},${Math.floor((x - left) / step)}`) ?? null,
    move: (index, dx, dy) => indexAt.get(`${places[index].row + dy},${places[index].column + dx}`) ?? index,
    describe(index) {
      const {name} = heads[index];
      const columnsShown = [...new Set([state.colour, state.order].filter((column) => column !== ''))];
      return [
        `Head ${name}`, ...columnsShown.map((column) => `${column}: ${shown(headValues(column).get(name))}`)
      ].join(', ');
    },
    act: (index, event) => event?.shiftKey || event?.key === 's' ?
        toggleHead(heads[index].name) :
        change({view: 'matrix', head: heads[index].name}),
    keys: ['s'],
    command: () => command(['-o', 'patterns.svg'], ['--include', '--plot']),
  };
  for (const head of current.heads) {  // draws each pattern as soon as it is decoded
    current.pattern(head.name, byWord()).then((matrix) => {
      patterns.set(head.name, matrix);
      figure.repaint();
      if (patterns.size === current.heads.length) requestAnimationFrame(() => performance.mark('drawn'));
    }, (error) => say(`A pattern cannot be decoded: ${error.message}`));
  }
  const coloured = state.colour ? findColumn(state.colour) : {place: -1};
  return [
    make(
        'div', {class: 'bar'}, stateChoice('Colour heads by', 'colour', choices),
        stateChoice('Sort heads by', 'order', choices)),
    coloured.place >= 0 ? definitionOf(coloured.table.columns[coloured.place]) : null,
    several && (state.colour || state.order) &&
            columnOf(page.tables.find((table) => table.name === 'heads') ?? {columns: []}, 'input') < 0 ?
        note('Metrics are over all inputs; --per-input computes them for each input.') :
        null,
    selectionBar(), figureElement(figure), storedNote(current)
  ];
}

/** Returns the figure of one pattern. */
async function patternFigure(current, name, figureName, width) {
  const matrix = await current.pattern(name, byWord());
  const queries = current.queries(byWord()), keys = current.keys(byWord());
  const fit = Math.max(
      3,
      Math.min(
          34, Math.floor((width - 190) / Math.max(matrix.columns, 1)),
          Math.floor(900 / Math.max(matrix.rows, 1))));
  const marked =
      state.key === '' ? null : {row: within(state.query, queries), column: within(state.key, keys)};
  return heatmapFigure({
    name: figureName,
    label: `Head ${name}${inputName(current)}`,
    matrix,
    scale: patternScale(),
    rowLabels: queries,
    columnLabels: keys,
    xAxis: 'Key',
    yAxis: 'Query',
    cell: state.zoom ? Math.max(34, 3 * fit) : Math.max(fit, matrix.columns <= 20 ? 22 : 3),
    hint:
        'Point at a cell, or use the arrow keys, for its value. A click chooses its query and key for the other views.',
    describe: ({row, column}) => `Head ${name}: query ${row} ${queries[row]} → key ${column} ${
        keys[column]}: ${shown(matrix.at(row, column))}`,
    act: ({row, column}) => change({query: String(row), key: String(column)}),
    overlay: (painter, cellBox) => {
      if (marked) painter.rect(...cellBox(marked), null, ink().text, 2);
    },
    command: () => isNorm ?
        command(
            [...wordOption(), '--heads', name, '--include', 'patterns', '-o', 'pattern.svg'], ['--layers']) :
        command([...wordOption(), '--show', name], ['--include', '--layers', '--heads', '--plot']),
  });
}

async function matrixView() {
  const current = currentAttention(), head = currentHead(), both = current.places.has(state.other);
  const width = both && mainWidth() > 700 ? mainWidth() / 2 : mainWidth();
  const figures = [figureElement(await patternFigure(current, head, 'matrix', width))];
  if (both) figures.push(figureElement(await patternFigure(current, state.other, 'other', width)));
  return [
    make(
        'div', {class: 'bar'}, stateChoice('Head', 'head', headChoices(), head),
        stateChoice('Beside it', 'other', [['', '(none)'], ...headChoices()]),
        stateChoice('Size', 'zoom', [['', 'fit'], ['1', 'large']]),
        button(
            selectedHeads().includes(head) ? `Remove ${head} from the selection` :
                                             `Select ${head} in all views`,
            () => toggleHead(head), {'data-select': ''}),
        state.key === '' ? null : button('Open the chosen cell in Neurons', () => change({view: 'neuron'}), {
          'data-open': 'neuron'
        })),
    selectionBar(), make('div', {class: 'figures'}, ...figures), storedNote(current)
  ];
}

const mostLineHeads = 8;  // heads with lines of their own colour

async function headView() {
  const current = currentAttention();
  const selected = selectedHeads().filter((name) => current.places.has(name));
  const all = selected.length > 0 ? selected : [currentHead()];
  const mean = state.mean !== '', names = mean ? all : all.slice(0, mostLineHeads);
  const matrices = mean ? [await current.meanPattern(names, byWord())] :
                          await Promise.all(names.map((name) => current.pattern(name, byWord())));
  const titles = mean ? [`mean of ${names.length} heads`] : names;
  const queries = current.queries(byWord()), keys = current.keys(byWord());
  const locked = state.locked === '' ? null : within(state.query, queries);
  let pointed = null;  // the query under the mouse or the keyboard
  const widest = (labels) => Math.min(
      mainWidth() < 500 ? 90 : 220, Math.max(30, ...labels.map((label) => textWidth(shorten(label, 26)))));
  const most = mainWidth() < 500 ? 12 : 26;
  const left = widest(queries) + 24, right = widest(keys) + 30;
  const gap = Math.max(90, Math.min(320, mainWidth() - left - right)), line = 20,
        top = 30 + 16 * titles.length;
  const high = patternScale().high;
  const strongest =
      (matrix, query) => [...matrix.row(query)]
                             .map((weight, key) => [weight, key])
                             .sort((a, b) => b[0] - a[0])
                             .slice(0, 5)
                             .map(([weight, key]) => `${keys[key]} ${shown(Number(weight.toFixed(4)))}`)
                             .join(', ');
  const figure = {
    name: 'heads',
    label: `Lines go from a query (left) to a key (right); their width is the weight${inputName(current)}`,
    width: left + gap + right,
    height: top + Math.max(queries.length, keys.length) * line + 12,
    hint:
        'Point at a query, or use the arrow keys, to see only its lines; a click or Enter keeps it. Until then, weights below 2 % of the scale have no line.',
    first: 0,
    has: (index) => index < queries.length,
    paint(painter) {
      const only = pointed ?? locked;
      titles.forEach((title, index) => {
        painter.rect(8, 6 + 16 * index, 10, 10, colourOfHead(index));
        painter.text(24, 11 + 16 * index, title, {size: 12});
      });
      painter.text(left - 6, top - 10, 'Query', {size: 11, anchor: 'end', colour: ink().dim});
      painter.text(left + gap + 6, top - 10, 'Key', {size: 11, colour: ink().dim});
      matrices.forEach((matrix, index) => {
        const colour = colourOfHead(index), share = 1 / matrices.length;
        for (let query = 0; query < matrix.rows; ++query) {
          if (only !== null && query !== only) continue;
          for (let key = 0; key < matrix.columns; ++key) {
            const strength = Math.min(1, matrix.at(query, key) / high);
            if (!(strength > (only === null ? 0.02 : 0.001))) continue;
            const ends = [[left, top + (query + 0.5) * line], [left + gap, top + (key + 0.5) * line]];
            painter.line(ends, colour, 0.4 + 7 * strength, Math.min(1, 0.12 + strength));
            if (only !== null)
              painter.rect(
                  left + gap, top + key * line + 3 + index * 14 * share, Math.max(1, strength * 7),
                  14 * share, colour);
          }
        }
      });
      queries.forEach(
          (text, i) => painter.text(
              left - 8, top + (i + 0.5) * line, shorten(text, most),
              {anchor: 'end', bold: i === only, colour: i === only ? ink().mark : ink().text}));
      keys.forEach((text, i) => painter.text(left + gap + 10, top + (i + 0.5) * line, shorten(text, most)));
    },
    mark() {},
    hit(x, y) {
      const index = Math.floor((y - top) / line);
      return x < left + gap / 2 && index >= 0 && index < queries.length ? index : null;
    },
    move: (index, dx, dy) => Math.min(Math.max(index + dx + dy, 0), queries.length - 1),
    point(index) { pointed = index; },
    describe: (index) =>
        matrices.map((matrix, i) => `${titles[i]}: ${queries[index]} attends to ${strongest(matrix, index)}`)
            .join('\n'),
    act: (index) => change(locked === index ? {locked: ''} : {query: String(index), locked: '1'}),
    command: () => command(
        [
          ...componentOption(), ...wordOption(), '--heads', names.join(','), '--from',
          String(within(state.query, queries))
        ],
        ['--layers', '--include', '--plot']),
  };
  const element = figureElement(figure);
  element.querySelector('canvas').addEventListener('mouseleave', () => {
    pointed = null;
    figure.repaint();
  });
  const head = currentHead();
  return [
    make(
        'div', {class: 'bar'}, stateChoice('Head', 'head', headChoices(), head),
        stateChoice('Several heads', 'mean', [['', 'one colour per head'], ['1', 'their mean']]),
        button('Select this head', () => toggleHead(head), {'data-select': ''}),
        button(
            'Mean of all heads',
            () => change({heads: current.heads.map((each) => each.name).join(','), mean: '1'}),
            {'data-all': ''})),
    selectionBar(),
    names.length < all.length ? note(`The first ${names.length} of ${all.length} selected heads are drawn.`) :
                                null,
    element, storedNote(current)
  ];
}

async function queryView() {
  const current = currentAttention();
  const queries = current.queries(byWord()), keys = current.keys(byWord());
  const query = within(state.query, queries), key = state.key === '' ? null : within(state.key, keys);
  const rows = await Promise.all(current.heads.map(
      async (head) => ({name: head.name, weights: (await current.pattern(head.name, byWord())).row(query)})));
  if (key !== null) rows.sort((a, b) => b.weights[key] - a.weights[key]);
  const numbers = new Float32Array(rows.length * keys.length);
  rows.forEach((row, index) => numbers.set(row.weights, index * keys.length));
  const matrix = new Matrix(rows.length, keys.length, numbers), names = rows.map((row) => row.name);
  const order = key === null ? '' : `, heads sorted by the weight on ${key} ${keys[key]}`;
  const figure = heatmapFigure({
    name: 'query',
    label: `What ${query} ${queries[query]} attends to: a row per head${order}${inputName(current)}`,
    matrix,
    scale: patternScale(),
    rowLabels: names,
    columnLabels: keys,
    rowHeads: names,
    xAxis: 'Key',
    yAxis: 'Head',
    cell: Math.max(11, Math.min(22, Math.floor(700 / rows.length))),
    cellWidth: Math.max(8, Math.min(34, Math.floor((mainWidth() - 150) / keys.length))),
    describe: ({row, column}) => `Head ${names[row]}: ${queries[query]} → key ${column} ${keys[column]}: ${
        shown(matrix.at(row, column))}`,
    command: () => command([
      ...componentOption(), ...wordOption(), '--from', String(query),
      ...(key === null ? [] : ['--to', String(key)])
    ]),
  });
  const image = current.data.image ?
      [
        stateChoice('Head over the image', 'head', headChoices(), currentHead()),
        figureElement(await imageFigure(current, query))
      ] :
      [];
  return [
    tokenRow('Query', queries, query, (index) => change({query: String(index)}), 'query'),
    tokenRow(
        'Sort heads by the weight on this key (press again for the order of the model)', keys, key,
        (index) => change({key: index === key ? '' : String(index)}), 'key'),
    selectionBar(), ...image, figureElement(figure), storedNote(current)
  ];
}

/** Returns a figure of the image with the weights of a query of one head over its patches. */
async function imageFigure(current, query) {
  const {image, keys, queries} = current.data, name = currentHead();
  const matrix = await current.pattern(name);
  const pixels = await values(image.pixels);  // [3 * height, width]
  const canvas = document.createElement('canvas');
  canvas.width = image.width;
  canvas.height = image.height;
  const data = new ImageData(image.width, image.height), size = image.width * image.height;
  for (let i = 0; i < size; ++i)
    data.data.set([pixels[i], pixels[size + i], pixels[2 * size + i], 255], 4 * i);
  canvas.getContext('2d').putImageData(data, 0, 0);
  const width = Math.min(360, mainWidth()), height = width * image.height / image.width,
        {rows, columns} = image;
  const first = matrix.columns - rows * columns, weights = matrix.row(query);  // tokens before the patches
  const most = Math.max(...weights.subarray(first), 1e-12);
  const others =
      Array.from(weights.subarray(0, first), (weight, i) => `${keys[i]} ${shown(weight)}`).join(', ');
  const boxOf = (place) =>
      [place % columns * width / columns, Math.floor(place / columns) * height / rows, width / columns,
       height / rows];
  return {
    name: 'image',
    width,
    height,
    first: 0,
    has: (place) => place < rows * columns,
    label: `Head ${name}: weights of ${queries[query]} over the image. The brightest patch has ${
        shown(most)}${others ? `; outside of the image: ${others}` : ''}`,
    hint: 'Point at a patch for its weight; a click makes it the query.',
    command: () => command(['--heads', name, '--from', String(query)], ['--layers', '--include']),
    paint(painter) {
      painter.image(canvas, width, height);
      for (let i = 0; i < rows * columns; ++i)
        painter.rect(...boxOf(i), `rgba(0,0,0,${(0.75 * (1 - weights[first + i] / most)).toFixed(3)})`);
      if (query >= first) painter.rect(...boxOf(query - first), null, '#ffffff', 2);
    },
    mark: (painter, place) => painter.rect(...boxOf(place), null, '#ffcc00', 2),
    hit(x, y) {
      const row = Math.floor(y / height * rows), column = Math.floor(x / width * columns);
      return row >= 0 && column >= 0 && row < rows && column < columns ? row * columns + column : null;
    },
    move: (place, dx, dy) => Math.min(Math.max(Math.floor(place / columns) + dy, 0), rows - 1) * columns +
        Math.min(Math.max(place % columns + dx, 0), columns - 1),
    describe: (place) => `${keys[first + place]}: ${shown(weights[first + place])}`,
    act: (place) => change({query: String(first + place)}),
  };
}

async function neuronView() {
  const current = currentAttention();
  if (!current.hasNeurons) {
    return [
      note(
          'This page has no query and key vectors. They are in the page of a short input, and in that of this command:'),
      make(
          'pre', {},
          command(['--include', 'metrics,patterns,queries,keys,scores', '-o', 'page.html'], ['--by-word']))
    ];
  }
  const name = currentHead(), {queries, keys} = current.data;
  const {query: queryAt, key: keyAt} = inUnit('token');  // this view always shows tokens
  const query = within(queryAt, queries), key = within(keyAt, keys);
  const {queries: q, keys: k, scores, scale} = await current.neurons(name);
  const pattern = await current.pattern(name);
  const d = q.columns, products = new Float32Array(3 * d);
  for (let i = 0; i < d; ++i) {
    products[i] = q.at(query, i);
    products[d + i] = k.at(key, i);
    products[2 * d + i] = q.at(query, i) * k.at(key, i);
  }
  const rowNames = ['q', 'k', 'q × k'];
  const dimensions = heatmapFigure({
    name: 'neuron',
    label: `Head ${name}: query ${query} ${queries[query]} and key ${key} ${keys[key]}, by dimension`,
    matrix: new Matrix(3, d, products),
    scale: fitScale(products),
    rowLabels: rowNames,
    columnLabels: Array.from({length: d}, (_, i) => String(i)),
    cell: 26,
    cellWidth: Math.max(6, Math.min(32, Math.floor((Math.max(mainWidth(), 600) - 140) / d))),
    xAxis: 'Dimension',
    zeros: true,
    describe: ({row, column}) =>
        `Dimension ${column}: ${rowNames[row]} = ${shown(products[row * d + column])}`,
    command: () => command(
        ['--include', 'queries,keys,scores,patterns', '--heads', name, '-o', 'neuron.npz'],
        ['--layers', '--by-word']),
  });
  const dotOf = (row) => {
    let sum = 0;
    for (let i = 0; i < d; ++i) sum += q.at(query, i) * k.at(row, i);
    return sum;
  };
  const difference = (x, y) =>
      Math.abs(x - y) < 2e-5 * Math.max(1, Math.abs(x)) ? 0 : x - y;  // 0 up to float32 rounding
  const all = keys.map(
      (label, row) =>
          ({row, label, dot: dotOf(row), score: scores.at(query, row), weight: pattern.at(query, row)}));
  const visible = all.filter((each) => !Number.isNaN(each.score));
  const most = Math.max(...visible.map((each) => each.score)),
        sum = visible.reduce((total, each) => total + Math.exp(each.score - most), 0);
  const body = make('tbody');
  for (const each of all) {
    const masked = Number.isNaN(each.score);
    const cells = [
      each.dot, each.dot * scale, masked ? 'masked' : difference(each.score, each.dot * scale),
      masked ? '-' : each.score, masked ? 0 : Math.exp(each.score - most) / sum, each.weight
    ];
    body.append(make(
        'tr', {class: each.row === key ? 'selected' : null, 'data-row': each.row},
        make(
            'th', {scope: 'row'},
            button(
                `${each.row} ${shorten(each.label, 30)}`,
                () => change({...inUnit('token'), key: String(each.row)}), {'data-choose': each.row})),
        ...cells.map(
            (cell) => make(
                'td', {class: 'number'},
                typeof cell === 'number' ? shown(Number(cell.toPrecision(5))) : cell))));
  }
  const lastColumn = page.weighting ? `weight (${page.weighting})` : 'weight of the model';
  const titles =
      ['key', 'q · k', '× scale', '+ position, cap, mask', 'score', 'softmax of the scores', lastColumn];
  const {kept} = current.data.layers[0].patterns;
  const last = page.weighting ?
      'The last column multiplies them by the lengths of the value vectors.' :
      `The last two columns differ if the model has a sink${
          kept > 0 ? `, and where the page does not keep the weight (it keeps ${kept} per query)` :
                     ''}; otherwise only by rounding.`;
  return [
    make('div', {class: 'bar'}, stateChoice('Head', 'head', headChoices(), name)),
    tokenRow('Query', queries, query, (index) => change({...inUnit('token'), query: String(index)}), 'query'),
    tokenRow('Key', keys, key, (index) => change({...inUnit('token'), key: String(index)}), 'key'),
    selectionBar(), figureElement(dimensions),
    note(
        `The score of a key is q · k times the scale ${
            shown(
                scale)}, plus what positions and a cap add; a masked key has none. If the model has rotary ` +
        `positions, q and k are already rotated. Softmax turns the scores of a query into weights. ${last}`),
    make(
        'div',
        {class: 'scroll', 'data-scroll': 'scores', tabindex: 0, role: 'region', 'aria-label': 'Scores'},
        make(
            'table', {'data-table': 'neuron'},
            make('thead', {}, make('tr', {}, ...titles.map((text) => make('th', {scope: 'col'}, text)))),
            body)),
    storedNote(current)
  ];
}
