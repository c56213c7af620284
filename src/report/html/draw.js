// Drawing. A figure paints itself on a CanvasPainter (the screen, PNG) or an SvgPainter (SVG).

const colormaps = {
  light: {
    sequential:
        ['#ffffff', '#d3e5f3', '#a4cde3', '#79b3d6', '#4e99c9', '#2d7dbb', '#1562a9', '#08488e', '#08306b'],
    diverging: [
      '#053061', '#2166ac', '#4393c3', '#92c5de', '#d1e5f0', '#ffffff', '#fddbc7', '#f4a582', '#d6604d',
      '#b2182b', '#67001f'
    ],
    undefined: '#d0d0d0',
  },
  dark: {
    sequential:
        ['#14161a', '#10263d', '#0f3d66', '#12568f', '#1f74b5', '#4e99c9', '#87bfe0', '#c4e0f1', '#ffffff'],
    diverging: [
      '#d1e5f0', '#92c5de', '#4393c3', '#2166ac', '#123a63', '#14161a', '#5f1620', '#b2182b', '#d6604d',
      '#f4a582', '#fddbc7'
    ],
    undefined: '#4b4f57',
  },
};
const headColours = {
  // of heads in one figure
  light: ['#0b57a4', '#b3441c', '#2b7a3f', '#8a3ea8', '#8a6a00', '#00727a', '#b0286a', '#555a64'],
  dark: ['#8ec1f5', '#ffab8a', '#8fd6a1', '#d9a8ee', '#e6c65c', '#6fd3da', '#ff9cc7', '#c3c7cf'],
};
const inks = {
  light:
      {back: '#ffffff', text: '#1b1d21', dim: '#53575f', line: '#c9ccd2', mark: '#b3261e', panel: '#f4f5f7'},
  dark:
      {back: '#14161a', text: '#e8eaee', dim: '#a9aeb8', line: '#434853', mark: '#ffb4ab', panel: '#1f2329'},
};
let theme = 'light';
const ink = () => inks[theme];
const colourOfHead = (index) => headColours[theme][index % headColours[theme].length];

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** A scale from values to colours: {low, high, diverging, logarithmic}. */
class Scale {
  constructor({low = 0, high = 1, diverging = false, logarithmic = false, label = ''}) {
    Object.assign(this, {low, high, diverging, logarithmic, label});
    this.stops = colormaps[theme][diverging ? 'diverging' : 'sequential'].map(channels);
    this.undefined = channels(colormaps[theme].undefined);
  }
  /** Returns the place of a value between the ends of the scale, from 0 to 1. */
  place(value) {
    const [low, high, x] = this.logarithmic ?
        [Math.log(this.low), Math.log(this.high), Math.log(Math.max(value, this.low))] :
        [this.low, this.high, value];
    return high > low ? Math.min(1, Math.max(0, (x - low) / (high - low))) : 0;
  }
  /** Returns the colour of a value as [red, green, blue]. */
  rgb(value) {
    if (!Number.isFinite(value)) return this.undefined;
    const place = this.place(value) * (this.stops.length - 1);
    const below = Math.min(Math.floor(place), this.stops.length - 2);
    return this.stops[below].map(
        (from, i) => Math.round(from + (this.stops[below + 1][i] - from) * (place - below)));
  }
  /** Returns 1025 colours from the low to the high end as pixels, and that of undefined values after them. */
  get pixels() {
    if (this.palette) return this.palette;
    const bytes = new Uint8ClampedArray(4 * 1026);
    for (let i = 0; i <= 1024; ++i) {
      const share = i / 1024;
      const value = this.logarithmic ? this.low * (this.high / this.low) ** share :
                                       this.low + (this.high - this.low) * share;
      bytes.set([...this.rgb(value), 255], 4 * i);
    }
    bytes.set([...this.undefined, 255], 4 * 1025);
    return this.palette = new Uint32Array(bytes.buffer);
  }
  get key() { return [theme, this.low, this.high, this.diverging, this.logarithmic].join(); }
  colour(value) { return `rgb(${this.rgb(value).join(',')})`; }
  /** Returns the colour of text on the colour of a value. */
  textOn(value) {
    const [red, green, blue] = this.rgb(value).map((c) => (c / 255) ** 2.2);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? '#000000' : '#ffffff';
  }
}

/** Returns the smallest and the largest finite number; [0, 1] if there is none. */
function endsOfNumbers(numbers) {
  let low = Infinity, high = -Infinity;
  for (const x of numbers) {
    if (!Number.isFinite(x)) continue;
    low = Math.min(low, x);
    high = Math.max(high, x);
  }
  return low > high ? [0, 1] : [low, high];
}

/**
 * Returns a scale for numbers. It is diverging if there are negative ones. Otherwise, it begins at 0, or at
 * the smallest number if all are in the upper half.
 */
function fitScale(numbers, label = '') {
  const [low, high] = endsOfNumbers(numbers), most = Math.max(-low, high);
  if (low < 0) return new Scale({low: -most, high: most, diverging: true, label});
  if (low > high / 2 && low < high) return new Scale({low, high, label});
  return new Scale({low: 0, high: high > 0 ? high : 1, label});
}

/** Formats a number for people. */
function shown(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '-';
  if (typeof value !== 'number') return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) :
                                                      String(Number(value.toPrecision(5)));
}

/** Shortens a label in the middle. */
function shorten(text, most) {
  const characters = Array.from(text);
  if (characters.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  return characters.slice(0, most - 1 - half).join('') + '…' +
      characters.slice(characters.length - half).join('');
}

const fontOf = (size, bold) => `${bold ? '600 ' : ''}${size}px system-ui, "DejaVu Sans", sans-serif`;
const measuring = document.createElement('canvas').getContext('2d');
function textWidth(text, size = 12) {
  measuring.font = fontOf(size);
  return measuring.measureText(text).width;
}

class CanvasPainter {
  constructor(context) { this.context = context; }
  rect(x, y, width, height, fill, stroke, lineWidth = 1) {
    const c = this.context;
    if (fill) {
      c.fillStyle = fill;
      c.fillRect(x, y, width, height);
    }
    if (stroke) {
      c.strokeStyle = stroke;
      c.lineWidth = lineWidth;
      c.strokeRect(x, y, width, height);
    }
  }
  line(points, stroke, width = 1, opacity = 1, dashed = false) {
    const c = this.context;
    c.setLineDash(dashed ? [6, 4] : []);
    c.globalAlpha = opacity;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.beginPath();
    points.forEach(([x, y], i) => i === 0 ? c.moveTo(x, y) : c.lineTo(x, y));
    c.stroke();
    c.setLineDash([]);
    c.globalAlpha = 1;
  }
  circle(x, y, radius, fill, stroke) {
    const c = this.context;
    c.beginPath();
    c.arc(x, y, radius, 0, 2 * Math.PI);
    if (fill) {
      c.fillStyle = fill;
      c.fill();
    }
    if (stroke) {
      c.strokeStyle = stroke;
      c.lineWidth = 2;
      c.stroke();
    }
  }
  text(x, y, text, {size = 12, anchor = 'start', colour = ink().text, turned = false, bold = false} = {}) {
    const c = this.context;
    c.save();
    c.translate(x, y);
    if (turned) c.rotate(-Math.PI / 2);
    c.font = fontOf(size, bold);
    c.fillStyle = colour;
    c.textAlign = anchor === 'middle' ? 'center' : anchor;
    c.textBaseline = 'middle';
    c.direction = 'ltr';
    c.fillText(text, 0, 0);
    c.restore();
  }
  /** Draws an image in the upper left corner. */
  image(canvas, width, height) {
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(canvas, 0, 0, width, height);
  }
  /** Fills a rectangle with the cells of a matrix. */
  cells(x, y, width, height, matrix, scale) {
    const image = imageOf(matrix, scale);
    const c = this.context;
    c.imageSmoothingEnabled = width < matrix.columns || height < matrix.rows;
    c.imageSmoothingQuality = 'high';
    c.drawImage(image, x, y, width, height);
  }
}

const images = new WeakMap();  // the last image of each matrix

/** Returns a canvas with one pixel per cell of a matrix. */
function imageOf(matrix, scale) {
  const last = images.get(matrix);
  if (last?.key === scale.key) return last.canvas;
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, matrix.columns);
  canvas.height = Math.max(1, matrix.rows);
  const image = new ImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer), colours = scale.pixels;
  for (let i = 0; i < matrix.rows * matrix.columns; ++i) {
    const value = matrix.numbers[i];
    pixels[i] = colours[Number.isFinite(value) ? Math.round(1024 * scale.place(value)) : 1025];
  }
  canvas.getContext('2d').putImageData(image, 0, 0);
  images.set(matrix, {key: scale.key, canvas});
  return canvas;
}

const escapeXml = (text) => String(text)
                                .replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)
                                .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd');

class SvgPainter {
  constructor() { this.parts = []; }
  rect(x, y, width, height, fill, stroke, lineWidth = 1) {
    this.parts.push(
        `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${fill || 'none'}"` +
        (stroke ? ` stroke="${stroke}" stroke-width="${lineWidth}"` : '') + '/>');
  }
  line(points, stroke, width = 1, opacity = 1, dashed = false) {
    this.parts.push(
        `<polyline points="${points.map((p) => p.join(',')).join(' ')}" fill="none" stroke="${stroke}" ` +
        `stroke-width="${width}" stroke-opacity="${opacity}"${dashed ? ' stroke-dasharray="6 4"' : ''}/>`);
  }
  circle(x, y, radius, fill, stroke) {
    this.parts.push(
        `<circle cx="${x}" cy="${y}" r="${radius}" fill="${fill || 'none'}"` +
        (stroke ? ` stroke="${stroke}" stroke-width="2"` : '') + '/>');
  }
  text(x, y, text, {size = 12, anchor = 'start', colour = ink().text, turned = false, bold = false} = {}) {
    this.parts.push(
        `<text x="${x}" y="${y}" font-size="${size}" text-anchor="${anchor}" fill="${colour}" ` +
        `dominant-baseline="central"${bold ? ' font-weight="600"' : ''}` +
        `${turned ? ` transform="rotate(-90 ${x} ${y})"` : ''}>${escapeXml(text)}</text>`);
  }
  image(canvas, width, height) {
    this.parts.push(`<image width="${width}" height="${height}" href="${canvas.toDataURL()}"/>`);
  }
  cells(x, y, width, height, matrix, scale) {
    if (matrix.rows * matrix.columns > 2500) {
      this.parts.push(
          `<image x="${x}" y="${y}" width="${width}" height="${height}" preserveAspectRatio="none" ` +
          `style="image-rendering:pixelated" href="${imageOf(matrix, scale).toDataURL()}"/>`);
      return;
    }
    const w = width / matrix.columns, h = height / matrix.rows;
    for (let row = 0; row < matrix.rows; ++row) {
      for (let column = 0; column < matrix.columns; ++column)
        this.rect(x + column * w, y + row * h, w, h, scale.colour(matrix.at(row, column)));
    }
  }
  document(width, height) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
        `viewBox="0 0 ${width} ${height}" font-family="system-ui, DejaVu Sans, sans-serif">\n` +
        `<rect width="100%" height="100%" fill="${ink().back}"/>\n${this.parts.join('\n')}\n</svg>\n`;
  }
}

/** Returns n such that labels do not overlap if every n-th of them is drawn. */
const labelStep = (count, space, needed) => {
  const least = Math.ceil(needed / Math.max(space, 1e-6));
  return [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((step) => step >= least) ?? count;
};

/** Returns the ends of a scale as texts. */
const endsOf = (scale) => [scale.high, scale.low].map((end) => String(Number(end.toPrecision(3))));
/** Returns the width that a colour bar needs. */
const colourBarWidth = (scale) =>
    46 + Math.max(...endsOf(scale).map((text) => textWidth(text, 11))) + (scale.label ? 14 : 0);

/** Paints a vertical colour bar with its ends and label. */
function paintColourBar(painter, x, y, height, scale) {
  const steps = 48, [high, low] = endsOf(scale),
        after = x + 24 + Math.max(textWidth(high, 11), textWidth(low, 11));
  for (let i = 0; i < steps; ++i) {
    const place = 1 - (i + 0.5) / steps;
    const value = scale.logarithmic ? scale.low * (scale.high / scale.low) ** place :
                                      scale.low + (scale.high - scale.low) * place;
    painter.rect(x, y + i * height / steps, 12, height / steps + 0.5, scale.colour(value));
  }
  painter.rect(x, y, 12, height, null, ink().line);
  painter.text(x + 16, y + 6, high, {size: 11});
  painter.text(x + 16, y + height - 6, low, {size: 11});
  let most = 60;
  while (most > 4 && textWidth(shorten(scale.label, most), 11) > height) --most;
  if (scale.label)
    painter.text(
        after, y + height / 2, shorten(scale.label, most),
        {size: 11, anchor: 'middle', turned: true, colour: ink().dim});
}
