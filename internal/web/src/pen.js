// Loops drawn as a row of joined letters, as in a writing exercise. One loop of the drawing is one pass of the model through its core.

// row gives the path of n loops that go from x to the right, step apart, over the line y, high tall.
export function row(n, x, y, step, high) {
  const wide = Math.min(step / (2 * Math.PI) + high * 0.25, step * 0.85); // more than step/2π, or the line would not cross itself
  const lean = high * 0.18;
  const points = [];
  const fine = 22;
  for (let k = 0; k <= n * fine; k++) {
    const a = (2 * Math.PI * k) / fine;
    const up = (1 - Math.cos(a)) / 2;
    const px = x + (step * k) / fine + wide * Math.sin(a) + lean * up;
    points.push(`${px.toFixed(1)} ${(y - high * up).toFixed(1)}`);
  }
  return 'M' + points.join('L');
}
