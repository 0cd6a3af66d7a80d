// The picture of the stage: the stream of every token as a band through the blocks, attention as lines between tokens.
//
// Two pictures are painted once, the values of the forward pass and the gradients of the backward pass; while the pass
// plays, each is shown as far as the pass has come. All is painted along the way of the values, and across it; where
// the drawing is turned, only the two axes change places.

import { paintNumbers, pairsOf } from "./bands.js";
import { blend, largest, shareOfPowers, styled } from "./colours.js";
import { make } from "./make.js";
import { middleOf, sizesOf } from "./parts.js";

// view, parts, shape: see parts.js -> a scene: what `paintFrame` needs, and the sizes that are drawn
export function makeScene(view, parts, shape) {
  const hasGradient = view.pass.loss !== null;
  const sizes = { value: parts.map((part) => sizesOf(view, part, "value")) };
  if (hasGradient) sizes.gradient = parts.map((part) => sizesOf(view, part, "gradient"));
  const pairs = {};
  for (const which of Object.keys(sizes)) {
    pairs[which] = parts.map((part) => (part.kind === "attn" ? pairsOf(view, part, which) : null));
  }
  const dots = Math.min(window.devicePixelRatio || 1, 2);
  const scene = { view, parts, shape, sizes, pairs, hasGradient, dots };
  scene.scales = { value: scaleOf(sizes.value, parts, "--scale-up", false) };
  if (hasGradient) scene.scales.gradient = scaleOf(sizes.gradient, parts, "--scale-back", true);
  scene.ground = paintLayer(scene, paintGround);
  scene.value = paintLayer(scene, (pen) => paintNumbers(pen, scene, "value"));
  scene.gradient = hasGradient ? paintLayer(scene, (pen) => paintNumbers(pen, scene, "gradient")) : null;
  return scene;
}

// A scale as those of colours.js, with part(size), 0 to 1, and paint(size). The head has numbers of another kind: it
// does not count.
function scaleOf(sizes, parts, colours, isPowers) {
  const most = largest(sizes.flatMap((row, k) => (parts[k].kind === "head" ? [] : [...row]))) || 1;
  const blended = blend(colours);
  const part = (size) => (isPowers ? shareOfPowers : Math.sqrt)(Math.min(size / most, 1));
  const colour = (size) => blended(0.22 + 0.78 * part(size));
  const ticks = isPowers ? [most / 1000, most / 31.6, most] : [0, most / 2, most];
  const at = (share) => (isPowers ? most * 10 ** (3 * share - 3) : share * most);
  return { most, part, colour, ticks, at, paint: (size) => `rgb(${colour(size).join(",")})` };
}

function paintLayer(scene, paint) {
  const canvas = make("canvas");
  sizeCanvas(canvas, scene);
  paint(penOf(canvas, scene), scene);
  return canvas;
}

export function sizeCanvas(canvas, { shape, dots }) {
  const [width, height] = shape.turned ? [shape.across, shape.along] : [shape.along, shape.across];
  canvas.width = Math.ceil(width * dots);
  canvas.height = Math.ceil(height * dots);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
}

// A pen that paints along and across.
function penOf(canvas, { shape, dots }) {
  const pen = canvas.getContext("2d");
  if (shape.turned) pen.setTransform(0, dots, dots, 0, 0, 0);
  else pen.setTransform(dots, 0, 0, dots, 0, 0);
  return pen;
}

// --- what is there before anything is computed -----------------------------------------------------------------------

function paintGround(pen, scene) {
  const { view, parts, shape } = scene;
  const last = shape.places.at(-1).to;
  paintBlocks(pen, scene);
  pen.fillStyle = styled("--accent-soft");
  pen.fillRect(shape.start - 6, shape.lane + view.position * shape.row, last - shape.start + 10, shape.row);
  pen.fillStyle = styled("--line");
  for (const t of view.ids.keys()) {
    pen.fillRect(shape.start, middleOf(shape, t) - 0.5, last - shape.start, 1);
  }
  parts.forEach((part, k) => paintCard(pen, shape, part, shape.places[k]));
  paintWires(pen, scene);
}

function paintBlocks(pen, { parts, shape }) {
  pen.fillStyle = styled("--stage-block");
  for (const i of new Set(parts.map((part) => part.block))) {
    if (i === null) continue;
    const places = shape.places.filter((_, k) => parts[k].block === i);
    const from = places[0].from - shape.gap / 2 + 2;
    pen.beginPath();
    pen.roundRect(from, 0, places.at(-1).to + shape.gap / 2 - 2 - from, shape.across, 8);
    pen.fill();
  }
}

// The room of a box among the tokens: a card; of a norm, on the stream or on a branch, a wall.
function paintCard(pen, shape, part, { from, to }) {
  if (part.kind === "sum" || part.kind === "embedding" || part.kind === "head") return;
  pen.fillStyle = styled(part.onStream ? "--stage-wall" : "--card");
  pen.strokeStyle = styled(part.onStream ? "--soft" : "--line");
  pen.lineWidth = part.onStream ? 1.5 : 1;
  pen.beginPath();
  pen.roundRect(from + 1.5, shape.lane + 0.5, to - from - 3, shape.across - shape.lane - 1, 4);
  pen.globalAlpha = part.onStream ? 1 : 0.75;
  pen.fill();
  pen.globalAlpha = 1;
  pen.stroke();
}

// The stream as one line, and the branches that leave it and are added to it again.
function paintWires(pen, { parts, shape }) {
  const { places, stream, branch, over } = shape;
  const paintWire = (width, points) => {
    pen.lineWidth = width;
    pen.beginPath();
    points.forEach((point) => pen.lineTo(...point));
    pen.stroke();
  };
  pen.strokeStyle = styled("--soft");
  paintWire(3, [[places[0].from + 4, stream], [places.at(-1).to - 4, stream]]);
  for (const { first, last, sum } of branchesOf(parts)) {
    const leaves = places[first].from - 1;
    const { to } = places[last];
    const joins = (places[sum].from + places[sum].to) / 2;
    const high = sum === last + 1 ? branch : over; // past the boxes of another branch
    const up = [[leaves, stream], [leaves, branch], [to, branch]];
    paintWire(1.5, [...up, [to, high], [joins, high], [joins, stream - 9]]);
  }
}

// -> [{ first, last: parts of a branch, sum: the part where it is added }]; two that read the same stream have one sum
function branchesOf(parts) {
  const branches = [];
  let first = null;
  parts.forEach((part, k) => {
    if (part.onStream) return;
    first ??= k;
    if (part.kind === "norm") return;
    const sum = parts.findIndex((one, i) => i > k && one.kind === "sum");
    branches.push({ first, last: k, sum });
    first = null;
  });
  return branches;
}

// --- a frame ---------------------------------------------------------------------------------------------------------

// front: { at: pixels along the way, back: has it turned? }
export function paintFrame(canvas, scene, front) {
  if (!scene.ground.width || !scene.ground.height) return; // in a frame that is hidden
  const pen = canvas.getContext("2d");
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(scene.ground, 0, 0);
  copyPart(pen, scene, scene.value, 0, front.at);
  if (front.back) copyPart(pen, scene, scene.gradient, front.at, scene.shape.along);
  paintFront(penOf(canvas, scene), scene, front);
}

function copyPart(pen, { shape, dots }, layer, from, to) {
  const [start, length] = [Math.round(from * dots), Math.round((to - from) * dots)];
  if (length <= 0) return;
  const box = shape.turned ? [0, start, layer.width, length] : [start, 0, length, layer.height];
  pen.drawImage(layer, ...box, ...box);
}

// Where the pass is: a line across all tokens, and on the stream's line a sign that says which way it goes.
function paintFront(pen, { shape }, { at, back }) {
  if (at <= shape.start || at >= shape.places.at(-1).to) return;
  const way = back ? -1 : 1;
  pen.fillStyle = styled(back ? "--mark" : "--accent");
  pen.fillRect(at - 1, shape.stream, 2, shape.across - shape.stream);
  pen.beginPath();
  pen.moveTo(at + 9 * way, shape.stream);
  pen.lineTo(at - 5 * way, shape.stream - 7);
  pen.lineTo(at - 5 * way, shape.stream + 7);
  pen.fill();
}
