// A matrix with labels, as the matrix view, the query view, the grid of heads and all heatmaps of results.

/**
 * Returns a figure of a matrix: {name, label, matrix, scale, rowLabels, columnLabels, xAxis, yAxis, cell,
 * cellWidth, texts, tree, rowHeads, columnHeads, command, hint, describe, act, overlay(painter, cellBox),
 * noBar, zeros}. rowHeads and columnHeads are the names of heads: a click selects them, and selected heads
 * are marked. `texts` are shown in the cells instead of the values. Cells do not show values below 0.005
 * unless `zeros` is set.
 */
function heatmapFigure(options) {
  const {matrix, scale, rowHeads, columnHeads} = options;
  const labelOf = (labels, index) => labels?.[index] ?? String(index);
  const rowLabels = Array.from({length: matrix.rows}, (_, i) => labelOf(options.rowLabels, i));
  const columnLabels = Array.from({length: matrix.columns}, (_, i) => labelOf(options.columnLabels, i));
  const longest = (labels) => Math.max(8, ...labels.map((label) => textWidth(shorten(label, 24), 11)));
  const cell =
      options.cell ?? Math.max(2, Math.min(34, Math.floor(760 / Math.max(matrix.rows, matrix.columns))));
  const cellWidth = options.cellWidth ?? cell;
  const left = 22 + longest(rowLabels) + 8, tree = options.tree?.merges?.length > 0 ? options.tree : null;
  const treeHeight = tree ? 90 : 0, stripHeight = tree?.column_groups?.length > 0 ? 14 : 0;
  const turned = longest(columnLabels) > cellWidth - 2;
  const labelHeight = turned ? longest(columnLabels) : 12;
  const top = 18 + labelHeight + 6 + treeHeight + stripHeight;
  const labelOfColumn = (painter, column, style) => painter.text(
      left + (column + 0.5) * cellWidth, turned ? top - 6 : top - 10, shorten(columnLabels[column], 24),
      {size: 11, turned, anchor: turned ? 'start' : 'middle', ...style});
  const width = cellWidth * matrix.columns, height = cell * matrix.rows;
  const right = 18 + colourBarWidth(scale), barHeight = Math.min(Math.max(height, 90), 220);
  const total = {width: left + width + right, height: top + Math.max(height, barHeight) + 10};
  const cellBox = ({row, column}) => [left + column * cellWidth, top + row * cell, cellWidth, cell];
  const digits =
      matrix.numbers.every((value) => !Number.isFinite(value) || Number.isInteger(value)) && scale.high > 1 ?
      0 :
      2;
  const textOf = (value) => {
    if (!Number.isFinite(value)) return '';
    if (Math.abs(value) >= 0.005 || digits === 0) return value.toFixed(Math.abs(value) >= 100 ? 0 : digits);
    return !options.zeros ? '' : value === 0 ? '0' : value.toExponential(0);
  };
  const small = matrix.rows * matrix.columns <= 4000 && cell >= 14;
  const withNumbers =
      small && Array.from(matrix.numbers).every((value) => textWidth(textOf(value), 10) <= cellWidth - 3);

  const leaf = (index) => left + (index + 0.5) * cellWidth;
  const paintTree = (painter) => {
    const most = Math.max(...tree.merges.map((merge) => merge.distance), 1e-12);
    const yOf = (distance) => top - labelHeight - 12 - stripHeight - distance / most * (treeHeight - 14);
    const places = Array.from({length: matrix.columns}, (_, i) => ({x: leaf(i), y: yOf(0)}));
    for (const merge of tree.merges) {
      const a = places[merge.first], b = places[merge.second], y = yOf(merge.distance);
      painter.line([[a.x, a.y], [a.x, y], [b.x, y], [b.x, b.y]], ink().dim);
      places.push({x: (a.x + b.x) / 2, y});
    }
    painter.text(left + width + 6, yOf(most), shown(most), {size: 11, colour: ink().dim});
    painter.text(left + width + 6, yOf(0), '0', {size: 11, colour: ink().dim});
    (tree.column_groups ?? [])
        .forEach(
            (group, i) => painter.rect(
                left + i * cellWidth, top - labelHeight - 10 - stripHeight, cellWidth, 8,
                colourOfHead(group)));
  };
  return {
    ...total,
    name: options.name,
    label: options.label,
    command: options.command,
    hint: options.hint ?? 'Point at a cell, or use the arrow keys, for its value.',
    has: ({row, column}) => row < matrix.rows && column < matrix.columns,
    first: {row: 0, column: 0},
    paint(painter) {
      if (tree) paintTree(painter);
      painter.cells(left, top, width, height, matrix, scale);
      painter.rect(left, top, width, height, null, ink().line);
      const everyRow = labelStep(matrix.rows, cell, 12),
            everyColumn = labelStep(matrix.columns, cellWidth, 12);
      const chosen = new Set(selectedHeads());
      for (let row = 0; row < matrix.rows; ++row) {
        const marked = rowHeads && chosen.has(rowHeads[row]);
        if (row % everyRow === 0 || marked)
          painter.text(
              left - 6, top + (row + 0.5) * cell, shorten(rowLabels[row], 24),
              {size: 11, anchor: 'end', bold: marked, colour: marked ? ink().mark : ink().text});
        if (marked) painter.rect(left, top + row * cell, width, cell, null, ink().mark, 2);
      }
      for (let column = 0; column < matrix.columns; ++column) {
        const marked = columnHeads && chosen.has(columnHeads[column]);
        if (column % everyColumn === 0 || marked)
          labelOfColumn(painter, column, {bold: marked, colour: marked ? ink().mark : ink().text});
        if (marked) painter.rect(left + column * cellWidth, top, cellWidth, height, null, ink().mark, 2);
      }
      if (options.texts || withNumbers) {
        for (let row = 0; row < matrix.rows; ++row) {
          for (let column = 0; column < matrix.columns; ++column) {
            const value = matrix.at(row, column);
            const text = options.texts?.[row * matrix.columns + column] ?? textOf(value);
            if (text !== '')
              painter.text(
                  left + (column + 0.5) * cellWidth, top + (row + 0.5) * cell, text,
                  {size: options.texts ? 12 : 10, anchor: 'middle', colour: scale.textOn(value)});
          }
        }
      }
      if (options.xAxis)
        painter.text(left + width / 2, 9, options.xAxis, {size: 11, anchor: 'middle', colour: ink().dim});
      if (options.yAxis)
        painter.text(
            9, top + height / 2, options.yAxis,
            {size: 11, anchor: 'middle', turned: true, colour: ink().dim});
      if (!options.noBar) paintColourBar(painter, left + width + 18, top, barHeight, scale);
      options.overlay?.(painter, cellBox);
    },
    mark(painter, {row, column}) {
      painter.rect(left, top + row * cell, width, cell, null, ink().dim);
      painter.rect(left + column * cellWidth, top, cellWidth, height, null, ink().dim);
      painter.rect(left + column * cellWidth, top + row * cell, cellWidth, cell, null, ink().mark, 2);
      painter.text(
          left - 6, top + (row + 0.5) * cell, shorten(rowLabels[row], 24),
          {size: 11, anchor: 'end', bold: true, colour: ink().mark});
      labelOfColumn(painter, column, {bold: true, colour: ink().mark});
    },
    hit(x, y) {
      const row = Math.floor((y - top) / cell), column = Math.floor((x - left) / cellWidth);
      if (row < 0 && column >= 0 && column < matrix.columns && columnHeads)
        return {row: 0, column, header: true};
      if (row < 0 || column < 0 || row >= matrix.rows || column >= matrix.columns) return null;
      return {row, column};
    },
    move: ({row, column}, dx, dy) => ({
      row: Math.min(Math.max(row + dy, 0), matrix.rows - 1),
      column: Math.min(Math.max(column + dx, 0), matrix.columns - 1)
    }),
    describe: (target) => options.describe ? options.describe(target) :
                                             `${rowLabels[target.row]}, ${columnLabels[target.column]}: ${
                                                 shown(matrix.at(target.row, target.column))}`,
    act(target) {
      if (options.act) return options.act(target);
      const names = [columnHeads?.[target.column], target.header ? undefined : rowHeads?.[target.row]].filter(
          (name) => name !== undefined);
      const before = selectedHeads(), all = names.every((name) => before.includes(name));
      if (names.length > 0)
        change({
          heads: (all ? before.filter((name) => !names.includes(name)) : [...new Set([...before, ...names])])
                     .join(',')
        });
    },
  };
}
