// Charts of tables: lines, bars and points.

/** Returns round numbers between two ends. */
function ticksOf(low, high, most = 6) {
  const span = high - low || 1;
  const raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((each) => each * power >= raw) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span; ++i) ticks.push(i * step);
  return ticks;
}

/** Returns a figure of one chart of a table, as Chart of the result model describes it. */
function chartFigure(chart, table, name, commandOf) {
  const left = 70, top = 40, plotHeight = 280,
        legend = chart.y.length > 1 ?
      34 + Math.max(...chart.y.map((name) => textWidth(shorten(name, 30), 11))) :
      20;
  const plotWidth = Math.max(200, Math.min(420, mainWidth() - left - legend)),
        width = left + plotWidth + legend;
  const x = columnOf(table, chart.x), ys = chart.y.map((each) => columnOf(table, each));
  const labelColumn = chart.labels ? columnOf(table, chart.labels) : -1;
  const number = (cell) => typeof cell === 'number' ? cell : NaN;
  const points = [];
  table.rows.forEach((row, index) => ys.forEach((y, series) => {
    const px = chart.bars ? index : number(row[x]), py = number(row[y]);
    if (!Number.isFinite(px) || !Number.isFinite(py) ||
        (!chart.bars && ((chart.log_x && px <= 0) || (chart.log_y && py <= 0))))
      return;
    points.push({
      x: px,
      y: py,
      series,
      row: index,
      label: labelColumn >= 0 ? String(row[labelColumn] ?? '') :
          chart.bars          ? String(row[x] ?? '') :
                                ''
    });
  }));
  const range = (numbers, log, zero) => {
    let [low, high] = endsOfNumbers(numbers);
    if (zero) {
      low = Math.min(low, 0);
      high = Math.max(high, 0);
    }
    if (low === high) {
      low -= 0.5;
      high += 0.5;
    }
    if (log) return [low, high];
    const space = zero ? 0 : (high - low) / 20;
    return [low - space, high + space];
  };
  const count = table.rows.length;
  const [x0, x1] = chart.bars ? [-0.5, count - 0.5] : range(points.map((p) => p.x), chart.log_x, false);
  const [y0, y1] = range(points.map((p) => p.y), chart.log_y, chart.bars);
  const along = (value, low, high, log) =>
      log ? Math.log(value / low) / Math.log(high / low || 2) : (value - low) / (high - low);
  const px = (value) => left + along(value, x0, x1, chart.log_x && !chart.bars) * plotWidth;
  const py = (value) => top + (1 - along(value, y0, y1, chart.log_y && !chart.bars)) * plotHeight;
  const powers = (low, high) => {
    const all = [];
    for (let p = Math.ceil(Math.log10(low) - 1e-9); 10 ** p <= high * 1.0001; ++p) all.push(10 ** p);
    return all.length > 1 ? all : [low, high];
  };
  const xTicks = chart.bars ? [] : chart.log_x ? powers(x0, x1) : ticksOf(x0, x1);
  const yTicks = chart.log_y && !chart.bars ? powers(y0, y1) : ticksOf(y0, y1);
  const groups = ys.length, barWidth = plotWidth / Math.max(count, 1) * 0.8 / groups;
  const bar = (p) => ({x: px(p.row) - barWidth * groups / 2 + p.series * barWidth, width: barWidth});
  const near = (at, y) => {
    let best = null, least = 18 ** 2;
    for (const p of points) {
      const distance = chart.bars ? (at >= bar(p).x && at < bar(p).x + barWidth ? 0 : Infinity) :
                                    (px(p.x) - at) ** 2 + (py(p.y) - y) ** 2;
      if (distance < least) {
        least = distance;
        best = p;
      }
    }
    return best;
  };
  const isHead = (p) =>
      p.label !== '' && table.columns.some((column) => column.name === 'head') && chart.labels === 'name';
  const figure = {
    name,
    width,
    height: top + plotHeight + (chart.bars ? 110 : 60),
    label: chart.title || name,
    caption: !chart.title,
    hint: 'Point at the chart, or use the arrow keys, for values.',
    command: commandOf,
    first: points[0] ?? null,
    paint(painter) {
      painter.text(left, 16, shorten(chart.title, 90), {size: 13, bold: true});
      for (const tick of xTicks) {
        painter.line([[px(tick), top], [px(tick), top + plotHeight]], ink().line);
        painter.text(px(tick), top + plotHeight + 12, shown(tick), {size: 11, anchor: 'middle'});
      }
      for (const tick of yTicks) {
        painter.line([[left, py(tick)], [left + plotWidth, py(tick)]], ink().line);
        painter.text(left - 6, py(tick), shown(tick), {size: 11, anchor: 'end'});
      }
      painter.rect(left, top, plotWidth, plotHeight, null, ink().dim);
      const chosen = new Set(selectedHeads());
      for (let series = 0; series < groups; ++series) {
        const own = points.filter((p) => p.series === series), isNull = chart.y[series] === chart.nullColumn;
        const colour = isNull ? ink().dim : colourOfHead(series);
        if (!chart.bars && !chart.points && own.length > 1)
          painter.line(own.map((p) => [px(p.x), py(p.y)]), colour, 2, 1, isNull);
        if (chart.outline && series === 0 && own.length > 2)
          painter.line(hullOf(own).map((p) => [px(p.x), py(p.y)]), ink().dim);
        const named = own.length <= 160;
        for (const p of own) {
          if (chart.bars)
            painter.rect(
                bar(p).x, Math.min(py(p.y), py(Math.max(0, y0))), barWidth,
                Math.max(1, Math.abs(py(p.y) - py(Math.max(0, y0)))), colour);
          else
            painter.circle(
                px(p.x), py(p.y), chart.points ? 4 : 2.5, colour,
                isHead(p) && chosen.has(p.label) ? ink().mark : null);
          if (chart.points && p.label && named)
            painter.text(px(p.x) + 6, py(p.y) - 6, shorten(p.label, 14), {size: 10});
        }
        if (groups > 1) {
          painter.rect(left + plotWidth + 12, top + series * 18, 10, 10, colour);
          painter.text(
              left + plotWidth + 27, top + series * 18 + 5, shorten(chart.y[series], 30), {size: 11});
        }
      }
      if (chart.bars) {
        const every = labelStep(count, plotWidth / Math.max(count, 1), 13);
        for (let i = 0; i < count; i += every)
          painter.text(
              px(i),
              top + plotHeight + 6 + Math.min(90, textWidth(shorten(String(table.rows[i][x] ?? ''), 16), 11)),
              shorten(String(table.rows[i][x] ?? ''), 16), {size: 11, turned: true});
      }
      painter.text(
          left + plotWidth / 2, figure.height - 10, chart.x_axis || chart.x,
          {size: 12, anchor: 'middle', colour: ink().dim});
      painter.text(
          12, top + plotHeight / 2, shorten(chart.y_axis || (groups === 1 ? chart.y[0] : ''), 48),
          {size: 12, anchor: 'middle', turned: true, colour: ink().dim});
    },
    mark(painter, p) {
      if (chart.bars)
        painter.rect(bar(p).x, top, barWidth, plotHeight, null, ink().mark, 2);
      else
        painter.circle(px(p.x), py(p.y), 7, null, ink().mark);
    },
    hit: near,
    move: (p, dx, dy) => points[Math.min(Math.max(points.indexOf(p) + dx + dy, 0), points.length - 1)],
    describe: (p) => `${p.label ? p.label + ', ' : ''}${chart.x}: ${chart.bars ? '' : shown(p.x) + ', '}${
        chart.y[p.series]}: ${shown(p.y)}`,
    act: (p) => {
      if (isHead(p)) toggleHead(p.label);
    },
  };
  return figure;
}

/** Returns the corners of the smallest convex polygon around points, closed. */
function hullOf(points) {
  const sorted = [...points].sort((a, b) => a.x - b.x || a.y - b.y);
  const turn = (a, b, c) => (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
  const half = (list) => {
    const kept = [];
    for (const p of list) {
      while (kept.length > 1 && turn(kept.at(-2), kept.at(-1), p) <= 0) kept.pop();
      kept.push(p);
    }
    return kept.slice(0, -1);
  };
  const corners = [...half(sorted), ...half(sorted.reverse())];
  return [...corners, corners[0]];
}
