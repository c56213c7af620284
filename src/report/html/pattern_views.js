// The views of attention patterns: model, matrix, head, query and neuron. A view returns its elements.

const inputName = (current) => page.attention.length > 1 ?
    ` (input ${current.data.input}${current.data.component ? ', ' + current.data.component : ''})` :
    current.data.component ? ` (${current.data.component})` :
                             '';
const storedNote = (current) => {
  const blocks = current.data.layers.map((layer) => layer.patterns);
  const kept = blocks[0].kept > 0 ?
      `; only the ${blocks[0].kept} largest weights of each row are stored, the others are shown as 0` :
      '';
  return note(`Weights are stored in ${
      blocks[0].bits} bits; a shown weight differs from the computed one by at most ${
      current.error.toExponential(1)}${kept}.`);
};
const patternScale = () => new Scale({
  low: 0,
  high: page.weighting === 'norm' ?
      Math.max(...currentAttention().data.layers.map((layer) => layer.highest)) :
      1,
  label: page.weighting ? `Weight (${page.weighting})` : 'Attention weight'
});

/** Returns the values of a column of the table of heads, by head name, for colours and orders. */
function headValues(column) {
  const [tableName, name] = column.includes('.') ? column.split('.') : ['heads', column];
  const table = page.tables.find((each) => each.name === tableName);
  const found = new Map();
  if (!table) return found;
  const key = columnOf(table, 'name'), value = columnOf(table, name), input = columnOf(table, 'input');
  if (key < 0 || value < 0) return found;
  for (const row of table.rows)
    if (input < 0 || String(row[input]) === currentAttention()?.data.input)
      if (!found.has(row[key])) found.set(row[key], row[value]);
  return found;
}

/**
 * Returns the columns by which heads can be coloured and sorted: "entropy", or "roles.role" of another
 * table.
 */
function headColumns() {
  const keys = new Set(['input', 'component', 'layer', 'head', 'name', 'kv_head', 'model', 'rows']);
  const columns = [];
  for (const table of page.tables) {
    const name = columnOf(table, 'name');
    if (name < 0 || columnOf(table, 'head') < 0 || columnOf(table, 'name_a') >= 0) continue;
    table.columns.forEach((column, index) => {
      if (keys.has(column.name) || !table.rows.some((row) => row[index] !== null)) return;
      columns.push(table.name === 'heads' ? column.name : `${table.name}.${column.name}`);
    });
  }
  return columns;
}

async function modelView() {
  const current = currentAttention();
  const choices = [['', '(none)'], ...headColumns().map((name) => [name, name])];
  const sorted = state.order !== '';
  const byColumn = sorted ? headValues(state.order) : new Map();
  const rank = (head) => {
    const value = byColumn.get(head.name);
    return typeof value === 'number' ? -value : Infinity;
  };
  const names = [...current.heads];
  if (sorted) names.sort((a, b) => rank(a) - rank(b));
  const numbers = [...new Set(current.heads.map((head) => head.head))].sort((a, b) => a - b);
  const layers = current.data.layers.map((layer) => layer.layer);
  const columns = sorted ? Math.min(12, names.length) : numbers.length;
  const size = Math.max(34, Math.min(90, Math.floor(1150 / Math.max(columns, 1)) - 8));
  const step = size + 8, left = 62, top = 34;
  const place = (index) => {
    const head = names[index];
    return sorted ? {column: index % columns, row: Math.floor(index / columns)} :
                    {column: numbers.indexOf(head.head), row: layers.indexOf(head.layer)};
  };
  const at = new Map(names.map((head, index) => [`${place(index).row},${place(index).column}`, index]));
  const rows = Math.max(...names.map((_, index) => place(index).row)) + 1;
  const scale = patternScale();
  const colours = headValues(state.colour);
  const numeric = [...colours.values()].filter((value) => typeof value === 'number');
  const colourScale = fitScale(numeric, state.colour);
  const words = [...new Set([...colours.values()].filter((value) => typeof value === 'string'))];
  const patterns = new Map();
  const figure = {
    name: 'model',
    label: `Patterns of all heads: queries down, keys across${inputName(current)}`,
    width: left + columns * step + (state.colour ? 90 : 10),
    height: top + rows * (step + (sorted ? 16 : 0)) + 10,
    hint: 'Click a head to open its matrix. Shift and click, or the key s, selects it in all views.',
    first: 0,
    paint(painter) {
      const chosen = new Set(selectedHeads());
      if (!sorted) {
        numbers.forEach(
            (head, column) => painter.text(
                left + column * step + size / 2, 22, String(head), {size: 11, anchor: 'middle'}));
        layers.forEach(
            (layer, row) => painter.text(
                left - 10, top + row * step + size / 2, String(layer), {size: 11, anchor: 'end'}));
        painter.text(left, 8, 'Head', {size: 11, colour: ink().dim});
        painter.text(8, top + 8, 'Layer', {size: 11, colour: ink().dim});
      }
      names.forEach((head, index) => {
        const {row, column} = place(index), x = left + column * step,
                    y = top + row * (step + (sorted ? 16 : 0));
        const matrix = patterns.get(head.name);
        if (matrix) painter.cells(x, y, size, size, matrix, scale);
        const value = colours.get(head.name);
        const edge = typeof value === 'number' ? colourScale.colour(value) :
            words.includes(value)              ? colourOfHead(words.indexOf(value)) :
                                                 ink().line;
        painter.rect(x - 2, y - 2, size + 4, size + 4, null, edge, state.colour ? 4 : 1);
        if (chosen.has(head.name)) painter.rect(x - 4, y - 4, size + 8, size + 8, null, ink().mark, 2);
        if (sorted)
          painter.text(
              x + size / 2, y + size + 9, `${head.name} ${shown(byColumn.get(head.name))}`,
              {size: 10, anchor: 'middle'});
      });
      if (state.colour && numeric.length > 0)
        paintColourBar(
            painter, left + columns * step + 8, top, Math.max(90, Math.min(200, rows * step)), colourScale);
      else
        words.forEach(
            (word, i) => painter.text(
                left + columns * step + 8, top + 8 + 16 * i, shorten(word, 14),
                {size: 11, colour: colourOfHead(i)}));
    },
    mark(painter, index) {
      const {row, column} = place(index);
      painter.rect(
          left + column * step - 3, top + row * (step + (sorted ? 16 : 0)) - 3, size + 6, size + 6, null,
          ink().text, 2);
    },
    hit(x, y) {
      const high = step + (sorted ? 16 : 0);
      return at.get(`${Math.floor((y - top) / high)},${Math.floor((x - left) / step)}`) ?? null;
    },
    move(index, dx, dy) {
      const {row, column} = place(index);
      return at.get(`${row + dy},${column + dx}`) ?? index;
    },
    describe(index) {
      const name = names[index].name, value = colours.get(name);
      return `Head ${name}` + (state.colour ? `, ${state.colour}: ${shown(value)}` : '') +
          (state.order && state.order !== state.colour ? `, ${state.order}: ${shown(byColumn.get(name))}` :
                                                         '');
    },
    act(index) { change({view: 'matrix', head: names[index].name}); },
    command: () => command('-o', 'patterns.svg'),
  };
  const element = figureElement(figure);
  const canvas = element.querySelector('canvas');
  canvas.addEventListener('click', (event) => {
    if (!event.shiftKey) return;
    event.stopImmediatePropagation();
    const box = canvas.getBoundingClientRect(),
          index = figure.hit(event.clientX - box.left, event.clientY - box.top);
    if (index !== null) toggleHead(names[index].name);
  }, {capture: true});
  canvas.addEventListener('keydown', (event) => {
    if (event.key !== 's') return;
    const name = element.querySelector('output').textContent.match(/^Head ([^,]+)/)?.[1];
    if (name) toggleHead(name);
  });
  for (const head of current.heads) {  // draws each pattern as soon as it is decoded
    current.pattern(head.name, byWord()).then((matrix) => {
      patterns.set(head.name, matrix);
      figure.repaint();
      if (patterns.size === current.heads.length) requestAnimationFrame(() => performance.mark('drawn'));
    });
  }
  return [
    make(
        'div', {class: 'bar'}, stateChoice('Colour heads by', 'colour', choices),
        stateChoice('Sort heads by', 'order', choices)),
    selectionBar(), element, storedNote(current)
  ];
}

/** Returns the figure of one pattern. */
async function patternFigure(current, name, figureName) {
  const matrix = await current.pattern(name, byWord());
  const queries = current.queries(byWord()), keys = current.keys(byWord());
  return heatmapFigure({
    name: figureName,
    label: `Head ${name}${inputName(current)}`,
    matrix,
    scale: patternScale(),
    rowLabels: queries,
    columnLabels: keys,
    xAxis: 'Key',
    yAxis: 'Query',
    cell: Math.max(
        3,
        Math.min(
            34,
            Math.floor(
                (state.other ? 560 : 820) * Number(state.part === 'zoom' ? 3 : 1) /
                Math.max(matrix.rows, matrix.columns)))),
    describe: ({row, column}) => `Head ${name}: query ${row} ${queries[row]} → key ${column} ${
        keys[column]}: ${shown(matrix.at(row, column))}`,
    act: ({row, column}) => change({query: String(row), key: String(column)}),
    command: () => command('--show', name, ...(byWord() ? ['--by-word'] : [])),
  });
}

async function matrixView() {
  const current = currentAttention(), head = currentHead();
  const figures = [figureElement(await patternFigure(current, head, 'matrix'))];
  if (current.places.has(state.other))
    figures.push(figureElement(await patternFigure(current, state.other, 'other')));
  return [
    make(
        'div', {class: 'bar'}, stateChoice('Head', 'head', headChoices(), head),
        stateChoice('Beside it', 'other', [['', '(none)'], ...headChoices()]),
        stateChoice(
            'Size', 'part', [['', 'fit'], ['zoom', 'three times as large']],
            state.part === 'zoom' ? 'zoom' : ''),
        button(
            selectedHeads().includes(head) ? `Remove ${head} from the selection` :
                                             `Select ${head} in all views`,
            () => toggleHead(head))),
    selectionBar(), make('div', {class: 'figures'}, ...figures), storedNote(current)
  ];
}

async function headView() {
  const current = currentAttention();
  const chosen = selectedHeads().filter((name) => current.places.has(name)).slice(0, 8);
  const mean = state.column === 'mean';
  const names = chosen.length > 0 ? chosen : [currentHead()];
  const matrices = mean ? [await current.meanPattern(names, byWord())] :
                          await Promise.all(names.map((name) => current.pattern(name, byWord())));
  const queries = current.queries(byWord()), keys = current.keys(byWord());
  const locked = state.key === '' || state.view !== 'heads' ? null : within(state.query, queries);
  let hovered = null;
  const widest = (labels) =>
      Math.min(220, Math.max(30, ...labels.map((label) => textWidth(shorten(label, 26)))));
  const left = widest(queries) + 24, gap = 300, line = 20, top = 24;
  const title = mean ? `mean of ${names.join(', ')}` : names.join(', ');
  const figure = {
    name: 'heads',
    label: `Head ${title}: each line goes from a query (left) to a key (right); its width is the weight${
        inputName(current)}`,
    width: left + gap + widest(keys) + 30,
    height: top + Math.max(queries.length, keys.length) * line + 12,
    hint: 'Point at a query, or use the arrow keys, to see only its lines; click or Enter locks it.',
    first: 0,
    paint(painter) {
      const only = hovered ?? locked;
      painter.text(left - 6, 10, 'Query', {size: 11, anchor: 'end', colour: ink().dim});
      painter.text(left + gap + 6, 10, 'Key', {size: 11, colour: ink().dim});
      matrices.forEach((matrix, index) => {
        const colour = colourOfHead(index), share = 1 / matrices.length;
        for (let query = 0; query < matrix.rows; ++query) {
          if (only !== null && query !== only) continue;
          for (let key = 0; key < matrix.columns; ++key) {
            const weight = matrix.at(query, key);
            if (!(weight > (only === null ? 0.02 : 0.001))) continue;
            const strength = Math.min(1, weight / patternScale().high);
            painter.line(
                [[left, top + (query + 0.5) * line], [left + gap, top + (key + 0.5) * line]], colour,
                0.4 + 7 * strength, Math.min(1, 0.12 + strength));
            if (only !== null)
              painter.rect(
                  left + gap, top + key * line + 3 + index * 14 * share, Math.max(1, strength * 7),
                  14 * share, colour);
          }
        }
      });
      queries.forEach(
          (text, i) => painter.text(
              left - 8, top + (i + 0.5) * line, shorten(text, 26),
              {anchor: 'end', bold: i === only, colour: i === only ? ink().mark : ink().text}));
      keys.forEach((text, i) => painter.text(left + gap + 10, top + (i + 0.5) * line, shorten(text, 26)));
    },
    hit(x, y) {
      const index = Math.floor((y - top) / line);
      return x < left + gap / 2 && index >= 0 && index < queries.length ? index : null;
    },
    move: (index, dx, dy) => Math.min(Math.max(index + dx + dy, 0), queries.length - 1),
    describe(index) {
      hovered = index;
      const row = [...matrices[0].row(index)]
                      .map((weight, key) => [weight, key])
                      .sort((a, b) => b[0] - a[0])
                      .slice(0, 5);
      return `${queries[index]} looks at ${
          row.map(([weight, key]) => `${keys[key]} ${shown(Number(weight.toFixed(4)))}`).join(', ')}`;
    },
    act: (index) => change(locked === index ? {key: ''} : {query: String(index), key: 'locked'}),
    command: () => command('--from', queries[within(state.query, queries)] ?? '0'),
  };
  const element = figureElement(figure);
  element.querySelector('canvas').addEventListener('mouseleave', () => {
    hovered = null;
    figure.repaint();
  });
  return [
    make(
        'div', {class: 'bar'}, stateChoice('Head', 'head', headChoices(), currentHead()),
        stateChoice(
            'Several heads', 'column', [['', 'one colour per head'], ['mean', 'mean of the selected heads']],
            mean ? 'mean' : ''),
        button('Select this head', () => toggleHead(currentHead())),
        button(
            'Select all heads',
            () => change({heads: current.heads.map((head) => head.name).join(','), column: 'mean'}))),
    selectionBar(),
    make(
        'div', {class: 'bar'},
        ...(mean ? [] :
                   names.map(
                       (name, index) =>
                           make('span', {class: 'note', 'data-legend': name}, `${index + 1}: ${name}`)))),
    element, storedNote(current)
  ];
}

async function queryView() {
  const current = currentAttention();
  const queries = current.queries(byWord()), keys = current.keys(byWord());
  const query = within(state.query, queries);
  const key = state.key !== '' && state.key !== 'locked' ? within(state.key, keys) : null;
  const rows = await Promise.all(current.heads.map(
      async (head) => ({name: head.name, weights: (await current.pattern(head.name, byWord())).row(query)})));
  if (key !== null) rows.sort((a, b) => b.weights[key] - a.weights[key]);
  const numbers = new Float32Array(rows.length * keys.length);
  rows.forEach((row, index) => numbers.set(row.weights, index * keys.length));
  const matrix = new Matrix(rows.length, keys.length, numbers);
  const names = rows.map((row) => row.name);
  const figure = heatmapFigure({
    name: 'query',
    label: `What ${query} ${queries[query]} looks at: a row per head${
        key === null ? '' : `, sorted by the weight on ${key} ${keys[key]}`}${inputName(current)}`,
    matrix,
    scale: patternScale(),
    rowLabels: names,
    columnLabels: keys,
    rowHeads: names,
    xAxis: 'Key',
    yAxis: 'Head',
    cell: Math.max(9, Math.min(22, Math.floor(700 / rows.length))),
    cellWidth: Math.max(4, Math.min(34, Math.floor(900 / keys.length))),
    describe: ({row, column}) => `Head ${names[row]}: ${queries[query]} → key ${column} ${keys[column]}: ${
        shown(matrix.at(row, column))}`,
    command: () => command(
        '--from', byWord() ? queries[query] : String(query),
        ...(key === null ? [] : ['--to', byWord() ? keys[key] : String(key)]),
        ...(byWord() ? ['--by-word'] : [])),
  });
  const image = current.data.image ? [figureElement(await imageFigure(current, query))] : [];
  return [
    tokenRow('Query', queries, query, (index) => change({query: String(index)}), 'query'),
    tokenRow(
        'Sort heads by the weight on this key (press again for the model\'s order)', keys, key,
        (index) => change({key: index === key ? '' : String(index)}), 'key'),
    selectionBar(), ...image, figureElement(figure), storedNote(current)
  ];
}

/** Returns a figure of the image with the weights of a query of one head over its patches. */
async function imageFigure(current, query) {
  const {image} = current.data, name = currentHead();
  const matrix = await current.pattern(name);
  const pixels = await values(image.pixels);  // [3 * height, width]
  const canvas = document.createElement('canvas');
  canvas.width = image.width;
  canvas.height = image.height;
  const data = new ImageData(image.width, image.height), size = image.width * image.height;
  for (let i = 0; i < size; ++i)
    data.data.set([pixels[i], pixels[size + i], pixels[2 * size + i], 255], 4 * i);
  canvas.getContext('2d').putImageData(data, 0, 0);
  const side = 360, rows = image.rows, columns = image.columns;
  const first = matrix.columns - rows * columns, weights = matrix.row(query);
  const most = Math.max(...weights.subarray(first), 1e-12);
  return {
    name: 'image',
    label: `Head ${name}: weights of query ${query} over the patches of the image; white is ${
        shown(most)}, and the weight on the class token is ${shown(weights[0])}`,
    width: side,
    height: side * image.height / image.width,
    first: {row: 0, column: 0},
    paint(painter) {
      if (painter instanceof CanvasPainter) {
        painter.context.imageSmoothingEnabled = false;
        painter.context.drawImage(canvas, 0, 0, this.width, this.height);
      } else
        painter.parts.push(
            `<image width="${this.width}" height="${this.height}" href="${canvas.toDataURL()}"/>`);
      const w = this.width / columns, h = this.height / rows;
      for (let i = 0; i < rows * columns; ++i) {
        const share = weights[first + i] / most;
        painter.rect(
            (i % columns) * w, Math.floor(i / columns) * h, w, h,
            `rgba(0,0,0,${(0.75 * (1 - share)).toFixed(3)})`);
      }
    },
    mark(painter, {row, column}) {
      painter.rect(
          column * this.width / columns, row * this.height / rows, this.width / columns, this.height / rows,
          null, '#ffcc00', 2);
    },
    hit(x, y) {
      const row = Math.floor(y / this.height * rows), column = Math.floor(x / this.width * columns);
      return row >= 0 && column >= 0 && row < rows && column < columns ? {row, column} : null;
    },
    move: ({row, column}, dx, dy) => ({
      row: Math.min(Math.max(row + dy, 0), rows - 1),
      column: Math.min(Math.max(column + dx, 0), columns - 1)
    }),
    describe: ({row, column}) =>
        `Patch in row ${row}, column ${column}: ${shown(weights[first + row * columns + column])}`,
    act: ({row, column}) => change({query: String(first + row * columns + column)}),
  };
}

async function neuronView() {
  const current = currentAttention();
  if (!current.hasNeurons) {
    return [
      note(
          'This page has no query and key vectors. They are in the page of short inputs, and with this command:'),
      make('pre', {}, command('--include', 'metrics,patterns,queries,keys,scores', '-o', 'page.html'))
    ];
  }
  const name = currentHead(), queries = current.data.queries, keys = current.data.keys;
  const query = within(state.query, queries), key = within(state.key, keys);
  const {queries: q, keys: k, scores, scale} = await current.neurons(name);
  const pattern = await current.pattern(name);
  const d = q.columns, product = new Float32Array(3 * d);
  const dot = (row) => {
    let sum = 0;
    for (let i = 0; i < d; ++i) sum += q.at(query, i) * k.at(row, i);
    return sum;
  };
  for (let i = 0; i < d; ++i) {
    product[i] = q.at(query, i);
    product[d + i] = k.at(key, i);
    product[2 * d + i] = q.at(query, i) * k.at(key, i);
  }
  const dimensions = heatmapFigure({
    name: 'neuron',
    label: `Head ${name}: query ${query} ${queries[query]} and key ${key} ${
        keys[key]}, after rotary positions, by dimension`,
    matrix: new Matrix(3, d, product),
    scale: fitScale(product),
    rowLabels: ['q', 'k', 'q × k'],
    columnLabels: Array.from({length: d}, (_, i) => String(i)),
    cell: 26,
    cellWidth: Math.max(5, Math.min(26, Math.floor(1000 / d))),
    xAxis: 'Dimension',
    describe: ({row, column}) =>
        `Dimension ${column}: ${['q', 'k', 'q × k'][row]} = ${shown(product[row * d + column])}`,
    command: () => command('--include', 'queries,keys,scores,patterns', '--heads', name, '-o', 'neuron.npz'),
  });
  const close = (x, y) =>
      Math.abs(x - y) < 2e-5 * Math.max(1, Math.abs(x)) ? 0 : x - y;  // float32 rounding is no difference
  const all = keys.map(
      (label, row) =>
          ({row, label, dot: dot(row), score: scores.at(query, row), weight: pattern.at(query, row)}));
  const finite = all.map((each) => each.score).filter((x) => !Number.isNaN(x));
  const most = Math.max(...finite), sum = finite.reduce((total, x) => total + Math.exp(x - most), 0);
  const body = make('tbody');
  for (const each of all) {
    const cells = [
      each.dot, each.dot * scale, Number.isNaN(each.score) ? 'masked' : close(each.score, each.dot * scale),
      Number.isNaN(each.score) ? '-' : each.score,
      Number.isNaN(each.score) ? 0 : Math.exp(each.score - most) / sum, each.weight
    ];
    body.append(make(
        'tr', {class: each.row === key ? 'selected' : null, 'data-row': each.row},
        make(
            'th', {scope: 'row'},
            button(`${each.row} ${shorten(each.label, 30)}`, () => change({key: String(each.row)}))),
        ...cells.map(
            (cell) => make(
                'td', {class: 'number'},
                typeof cell === 'number' ? shown(Number(cell.toPrecision(5))) : cell))));
  }
  const head = make(
      'tr', {},
      ...['key', 'q · k', '× scale', '+ position, cap, mask', 'score', 'softmax of the scores',
          'weight of the model']
          .map((text) => make('th', {scope: 'col'}, text)));
  return [
    make('div', {class: 'bar'}, stateChoice('Head', 'head', headChoices(), name)),
    tokenRow('Query', queries, query, (index) => change({query: String(index)}), 'query'),
    tokenRow('Key', keys, key, (index) => change({key: String(index)}), 'key'), selectionBar(),
    figureElement(dimensions),
    note(
        `The score of a key is q · k times the scale ${
            shown(
                scale)}, plus what positions and a cap add; masked keys have none. Softmax turns the scores of a query into weights. ` +
        'The last two columns differ if the model has a sink; otherwise they differ by the rounding of the stored weights.'),
    make('div', {class: 'scroll'}, make('table', {'data-table': 'neuron'}, make('thead', {}, head), body)),
    storedNote(current)
  ];
}
