// Elements of the page.

/** Makes an element. Texts become text nodes, so that they are never read as markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on'))
      element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Makes a button. It keeps the focus when the view is shown again, by its first data attribute. */
function button(text, action, attributes = {}) {
  const key = Object.keys(attributes).some((name) => name.startsWith('data-')) ? {} : {'data-button': text};
  return make('button', {type: 'button', onclick: action, ...key, ...attributes}, text);
}

/** Makes a labelled list of choices: [[value, text]...]. */
function choice(label, choices, value, action, attributes = {}) {
  const select = make('select', {onchange: () => action(select.value), ...attributes});
  for (const [each, text] of choices) select.append(make('option', {value: each}, text));
  select.value = value;
  return make('label', {}, label, select);
}

/** Makes a choice of the state: its change shows the new state. */
const stateChoice = (label, name, choices, value = state[name]) =>
    choice(label, choices, value, (chosen) => change({[name]: chosen}), {'data-state': name});

const note = (text) => make('p', {class: 'note'}, text);

function say(text) { document.getElementById('status').textContent = text; }

async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${what}`);
  } catch {
    const area = make('textarea', {'aria-label': what}, text);
    document.body.append(area);
    area.select();
    say(document.execCommand('copy') ? `Copied ${what}` : `The browser does not allow copying ${what}`);
    area.remove();
  }
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  make('a', {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
  say(`Saved ${name}`);
}

/** Quotes a word for a shell. Control characters are escaped, so that pasting them has no effect. */
function shellWord(word) {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  const hidden = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  if (!hidden.test(word)) return '\'' + word.replaceAll('\'', '\'\\\'\'') + '\'';
  const escaped = word.replace(/[\\']/g, '\\$&')
                      .replace(hidden, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
  return `$'${escaped}'`;
}

/** Returns the words of a command without these options and their values. */
function withoutOptions(words, names) {
  const kept = [];
  for (let i = 0; i < words.length; ++i) {
    const name = words[i].split('=')[0];
    if (!names.includes(name))
      kept.push(words[i]);
    else if (name === words[i] && !flags.includes(name))
      ++i;  // also leaves out the value
  }
  return kept;
}
const flags = ['--by-word', '--across-layers', '--fold-norm', '--per-input', '--strip-markers'];

/**
 * Returns the command that made the page with further words. These replace the same options, and `without`.
 */
function command(words, without = []) {
  const given = words.filter((word) => word.startsWith('--'));
  return [...withoutOptions(page.command, [...given, ...without]), ...words].map(shellWord).join(' ');
}
/** Returns the option --component for a model with several. */
function componentOption() {
  const names = {enc: 'encoder', dec: 'decoder', cross: 'cross'}, {component} = currentAttention().data;
  return component ? ['--component', names[component] ?? component] : [];
}
const wordOption = () => byWord() ? ['--by-word'] : [];

const lastTargets = new Map();  // by the name of the figure

/**
 * Makes the element of a figure:
 *   {name, label, width, height, paint(painter), hint, hit(x, y), first, move(target, dx, dy), has(target),
 *    describe(target), point(target), mark(painter, target), act(target, event), keys, command(), caption}
 * hit() returns what is at a point, its target, or null. The arrow keys begin at `first` and go to move().
 * describe() returns the text of a target; point() is called when it becomes the current one, which mark()
 * paints. act() is called by a click, Enter and the further `keys`. has() returns whether a figure has a
 * target: the figure that is shown after a change keeps the target of the one before it. command() returns a
 * command line. `caption: false` leaves out the caption.
 */
function figureElement(figure) {
  const ratio = Math.min(window.devicePixelRatio || 1, 16000 / Math.max(figure.width, figure.height, 1));
  const canvas = make('canvas', {
    tabindex: 0,
    role: 'application',
    'aria-label': figure.label,
    'aria-roledescription': 'figure',
    'data-figure': figure.name
  });
  canvas.width = Math.round(figure.width * ratio);
  canvas.height = Math.round(figure.height * ratio);
  canvas.style.width = figure.width + 'px';
  canvas.style.height = figure.height + 'px';
  const context = canvas.getContext('2d');
  const readout = make('output', {'aria-live': 'polite', 'data-readout': figure.name}, figure.hint ?? '');
  let target = lastTargets.get(figure.name) ?? null;
  if (target !== null && !figure.has?.(target)) target = null;
  if (target !== null) readout.textContent = figure.describe(target);
  const paint = () => {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const painter = new CanvasPainter(context);
    painter.rect(0, 0, figure.width, figure.height, ink().back);
    figure.paint(painter);
    if (target !== null) figure.mark?.(painter, target);
  };
  let planned = false;
  const repaint = () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      paint();
    });
  };
  figure.repaint = repaint;
  const show = (next) => {
    if (next === null || next === undefined) return;
    target = next;
    lastTargets.set(figure.name, target);
    figure.point?.(target);
    readout.textContent = figure.describe?.(target) ?? '';
    repaint();
  };
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    return figure.hit?.(
               (event.clientX - box.left) * figure.width / box.width,
               (event.clientY - box.top) * figure.height / box.height) ??
        null;
  };
  canvas.addEventListener('mousemove', (event) => show(point(event)));
  canvas.addEventListener('click', (event) => {
    const at = point(event);
    if (at === null) return;
    show(at);
    figure.act?.(at, event);
  });
  canvas.addEventListener('keydown', (event) => {
    const step = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]}[event.key];
    if (step && figure.move) {
      event.preventDefault();
      show(target === null ? figure.first : figure.move(target, ...step));
    } else if (target !== null && ['Enter', ' ', ...(figure.keys ?? [])].includes(event.key) && figure.act) {
      event.preventDefault();
      figure.act(target, event);
    }
  });
  paint();
  const svg = () => {
    const painter = new SvgPainter();
    figure.paint(painter);
    return painter.document(figure.width, figure.height);
  };
  const tools = make(
      'div', {class: 'bar tools'},
      button('Copy as SVG', () => copyText(svg(), 'the SVG picture'), {'data-tool': 'svg'}),
      button(
          'Save PNG', () => canvas.toBlob((blob) => save(blob, `attnctl-${figure.name}.png`)),
          {'data-tool': 'png'}),
      figure.command ?
          button(
              'Copy the command', () => copyText(figure.command(), 'the command'), {'data-tool': 'command'}) :
          null);
  return make(
      'figure', {}, figure.caption === false ? null : make('figcaption', {}, figure.label),
      make('div', {class: 'scroll', 'data-scroll': figure.name}, canvas), readout, tools);
}

/** Makes a row of tokens as buttons; `chosen` is pressed. */
function tokenRow(label, labels, chosen, action, name) {
  const row = make('div', {class: 'tokens', role: 'group', 'aria-label': label});
  labels.forEach(
      (text, index) => row.append(button(
          text === '' ? '(empty)' : shorten(text, 40), () => action(index),
          {'aria-pressed': index === chosen, title: `${index}: ${text}`, [`data-${name}`]: index})));
  return make('div', {}, make('div', {class: 'note'}, label), row);
}

/** Returns the width that a figure has without scrolling. */
const mainWidth = () => Math.max(240, document.getElementById('main').clientWidth - 34);

/** Returns the choices of heads: all heads of the attention. */
const headChoices = () => currentAttention().heads.map((head) => [head.name, head.name]);

/** Makes the row of buttons with which heads are selected in all views. */
function selectionBar() {
  const heads = selectedHeads();
  const list = make('div', {class: 'bar', role: 'group', 'aria-label': 'Selected heads'});
  for (const name of heads)
    list.append(button(
        `${name} ×`, () => toggleHead(name),
        {'data-selected': name, 'aria-label': `Remove head ${name} from the selection`}));
  if (heads.length > 0)
    list.append(button('Clear the selection', () => change({heads: ''}), {'data-clear': ''}));
  return list;
}
