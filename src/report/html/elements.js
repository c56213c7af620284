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

function button(text, action, attributes = {}) {
  return make('button', {type: 'button', onclick: action, ...attributes}, text);
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

/** Quotes a word for a shell. */
const shellWord = (word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : '\'' + word.replaceAll('\'', '\'\\\'\'') + '\'';

/**
 * Returns the command that made the page, without its output, with further words, which replace the same
 * options.
 */
function command(...words) {
  const given = new Set(words.filter((word) => word.startsWith('--')));
  const kept = page.command.filter((word, index) => !given.has(word) && !given.has(page.command[index - 1]));
  return [...kept, ...words].map(shellWord).join(' ');
}

/**
 * Makes the element of a figure:
 *   {width, height, paint(painter), label, hit(x, y), describe(target), act(target), move(target, dx, dy),
 * first, mark(painter, target), name, command} hit() returns what is at a point, or null; describe() returns
 * its text; act() is called by a click or Enter; move() returns the target next to another one, for the arrow
 * keys; mark() paints the current target.
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
  let target = null;
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
    if (at !== null) {
      show(at);
      figure.act?.(at);
    }
  });
  canvas.addEventListener('keydown', (event) => {
    const step = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]}[event.key];
    if (step && figure.move) {
      event.preventDefault();
      show(target === null ? figure.first : figure.move(target, ...step));
    } else if ((event.key === 'Enter' || event.key === ' ') && target !== null && figure.act) {
      event.preventDefault();
      figure.act(target);
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
      'figure', {}, make('figcaption', {}, figure.label), make('div', {class: 'scroll'}, canvas), readout,
      tools);
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
