// Reads the data of the page. The texts in it come from models and inputs: they are shown as text, never as
// markup.

const page = JSON.parse(document.getElementById('page-data').textContent);
page.attention ??= [];
page.tables ??= [];
page.pictures ??= [];

/** Decodes base64 text. @returns {Uint8Array} */
function bytesOf(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Returns the bytes that a zlib stream contains. */
async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Decodes a block, which is a matrix of numbers in 8, 16 or 32 bits. With 32 bits, they are float32.
 * Otherwise, a row has a smallest value `low` and a step: value = low + step * code. The largest code means
 * undefined (NaN). If block.kept is not 0, only the largest values of each row are stored, with their
 * columns; the others become 0. The error of a value is at most half a step of its row; block.error is the
 * largest error in the block.
 * @returns {Promise<Float32Array>} [rows, columns]
 */
async function decode(block) {
  const bytes = await inflate(bytesOf(document.getElementById(block.id).textContent));
  const {rows, columns, kept} = block;
  if (block.bits === 32) return new Float32Array(bytes.buffer, 0, rows * columns);
  const stored = kept > 0 ? kept : columns;
  const wide = block.bits === 16;
  const numbers = new Float32Array(bytes.buffer, 0, 2 * rows);  // low of each row, then step of each row
  let at = 8 * rows;
  const plane = (count) => bytes.subarray(at, (at += count));
  const columnLow = kept > 0 ? plane(rows * kept) : null, columnHigh = kept > 0 ? plane(rows * kept) : null;
  const codeLow = plane(rows * stored), codeHigh = wide ? plane(rows * stored) : null;
  const undefinedCode = wide ? 65535 : 255;
  const values = new Float32Array(rows * columns);
  for (let row = 0; row < rows; ++row) {
    const low = numbers[row], step = numbers[rows + row];
    for (let i = 0; i < stored; ++i) {
      const place = row * stored + i;
      const code = wide ? codeLow[place] | codeHigh[place] << 8 : codeLow[place];
      const column = kept > 0 ? columnLow[place] | columnHigh[place] << 8 : i;
      if (kept > 0 && column >= columns) continue;  // the row has fewer values than are kept
      values[row * columns + column] = code === undefinedCode ? NaN : low + step * code;
    }
  }
  return values;
}

const decoded = new Map();  // promises of decoded blocks, by id

/** Decodes a block at its first use. */
function values(block) {
  if (!decoded.has(block.id)) decoded.set(block.id, decode(block));
  return decoded.get(block.id);
}

/** A matrix of numbers, [rows, columns], row-major. */
class Matrix {
  constructor(rows, columns, numbers) {
    this.rows = rows;
    this.columns = columns;
    this.numbers = numbers;
  }
  at(row, column) { return this.numbers[row * this.columns + column]; }
  row(row) { return this.numbers.subarray(row * this.columns, (row + 1) * this.columns); }
}

/**
 * Merges the tokens of a pattern into words, as --by-word does: the attention from a word is the mean over
 * its tokens, the attention to a word is the sum over its tokens.
 */
function mergeWords(matrix, words) {
  const count = words.labels.length;
  const merged = new Float32Array(count * count);
  const sizes = new Array(count).fill(0);
  for (let query = 0; query < matrix.rows; ++query) {
    const row = words.of[query];
    ++sizes[row];
    for (let key = 0; key < matrix.columns; ++key)
      merged[row * count + words.of[key]] += matrix.at(query, key);
  }
  for (let i = 0; i < merged.length; ++i) merged[i] /= sizes[Math.floor(i / count)];
  return new Matrix(count, count, merged);
}

/** The attention of some heads on one input. */
class Attention {
  constructor(data) {
    this.data = data;
    this.heads = data.heads;
    this.places = new Map(data.heads.map((head, index) => [head.name, index]));
    this.patterns = new Map();  // promises of patterns, by head and unit
  }
  /** Returns the labels of queries or keys, of tokens or of words. */
  queries(byWord) { return byWord && this.data.words ? this.data.words.labels : this.data.queries; }
  keys(byWord) { return byWord && this.data.words ? this.data.words.labels : this.data.keys; }

  layerOf(name) {
    const place = this.places.get(name);
    return this.data.layers.find((layer) => place >= layer.first && place < layer.first + layer.count);
  }
  /** Returns the matrix of a head from a block that has `perHead` rows for each head of its layer. */
  async part(name, kind, index, perHead) {
    const block = this.layerOf(name)?.[kind];
    if (!block) return null;
    const all = await values(block);
    const size = perHead * block.columns;
    return new Matrix(perHead, block.columns, all.subarray(index * size, (index + 1) * size));
  }
  indexInLayer(name) { return this.places.get(name) - this.layerOf(name).first; }

  /** Returns the pattern of a head, [queries, keys]; of tokens, or of words if `byWord`. */
  pattern(name, byWord = false) {
    const key = `${name} ${byWord}`;
    if (!this.patterns.has(key)) this.patterns.set(key, this.computePattern(name, byWord));
    return this.patterns.get(key);
  }
  async computePattern(name, byWord) {
    const matrix = await this.part(name, 'patterns', this.indexInLayer(name), this.data.queries.length);
    return byWord && this.data.words ? mergeWords(matrix, this.data.words) : matrix;
  }
  async meanPattern(names, byWord = false) {
    const all = await Promise.all(names.map((name) => this.pattern(name, byWord)));
    const sum = new Float32Array(all[0].numbers.length);
    for (const each of all)
      for (let i = 0; i < sum.length; ++i) sum[i] += each.numbers[i] / all.length;
    return new Matrix(all[0].rows, all[0].columns, sum);
  }
  /** Returns whether the page has the vectors and scores of the neuron view. */
  get hasNeurons() { return this.data.layers.every((layer) => layer.queries && layer.keys && layer.scores); }
  /** Returns the query vectors, key vectors and scores of a head, and the scale of its scores. */
  async neurons(name) {
    const head = this.heads[this.places.get(name)];
    return {
      queries: await this.part(name, 'queries', this.indexInLayer(name), this.data.queries.length),
      keys: await this.part(name, 'keys', head.kv, this.data.keys.length),
      scores: await this.part(name, 'scores', this.indexInLayer(name), this.data.queries.length),
      scale: this.layerOf(name).scale,
    };
  }
  /** Largest error of the weights in the page. */
  get error() { return Math.max(...this.data.layers.map((layer) => layer.patterns.error)); }
}

const attention = page.attention.map((data) => new Attention(data));

/** Returns the place of a column of a table; -1 if there is none. */
const columnOf = (table, name) => table.columns.findIndex((column) => column.name === name);
