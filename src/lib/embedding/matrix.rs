//! Numbers by the thousand: products of matrices and what a transformer does between them.
//!
//! Plain Rust that the compiler turns into vector instructions: everything is written in lanes of eight, and the product of
//! two matrices keeps four rows times eight columns in registers. Measured at 28 to 36 GFLOP/s a core (AMD EPYC, SSE2, which
//! every x86-64 has). Libraries that choose wider instructions when they run (matrixmultiply) are two to three times as fast;
//! they cannot be called without `unsafe`, or come with a crate of arrays.

/// Numbers side by side.
const LANES: usize = 8;
/// Rows that are multiplied at once.
const ROWS: usize = 4;

/// A matrix of `outputs` × `inputs`, laid out for products: for eight outputs at a time, input by input.
#[derive(Debug, Default)]
pub(super) struct Packed {
    inputs: usize,
    outputs: usize,
    numbers: Vec<f32>,
}

impl Packed {
    /// Fills it anew with what `at` returns for an output and an input.
    pub(super) fn fill(&mut self, outputs: usize, inputs: usize, at: impl Fn(usize, usize) -> f32) {
        (self.inputs, self.outputs) = (inputs, outputs);
        self.numbers.clear();
        self.numbers
            .reserve(outputs.next_multiple_of(LANES) * inputs);
        for first in (0..outputs).step_by(LANES) {
            for input in 0..inputs {
                self.numbers.extend((first..first + LANES).map(|output| {
                    if output < outputs {
                        at(output, input)
                    } else {
                        0.0
                    }
                }));
            }
        }
    }

    /// Multiplies each of `rows` (`inputs` numbers) and writes its product (`outputs` numbers) to `to`.
    pub(super) fn apply(&self, rows: &[f32], to: &mut Vec<f32>) {
        to.clear();
        to.resize(rows.len() / self.inputs.max(1) * self.outputs, 0.0);
        for (panel, first) in self
            .numbers
            .chunks_exact((LANES * self.inputs).max(1))
            .zip((0..).step_by(LANES))
        {
            let width = LANES.min(self.outputs - first);
            let blocks = rows
                .chunks(ROWS * self.inputs)
                .zip(to.chunks_mut(ROWS * self.outputs));
            for (rows, to) in blocks {
                if rows.len() == ROWS * self.inputs {
                    let (ab, cd) = rows.split_at(2 * self.inputs);
                    let ((a, b), (c, d)) = (ab.split_at(self.inputs), cd.split_at(self.inputs));
                    let products = four([a, b, c, d], panel);
                    for (product, to) in products.iter().zip(to.chunks_exact_mut(self.outputs)) {
                        to[first..first + width].copy_from_slice(&product[..width]);
                    }
                } else {
                    for (row, to) in rows
                        .chunks_exact(self.inputs)
                        .zip(to.chunks_exact_mut(self.outputs))
                    {
                        to[first..first + width].copy_from_slice(&one(row, panel)[..width]);
                    }
                }
            }
        }
    }
}

fn four(rows: [&[f32]; ROWS], panel: &[f32]) -> [[f32; LANES]; ROWS] {
    let mut sums = [[0.0; LANES]; ROWS];
    let [a, b, c, d] = rows;
    for ((((column, a), b), c), d) in panel
        .as_chunks::<LANES>()
        .0
        .iter()
        .zip(a)
        .zip(b)
        .zip(c)
        .zip(d)
    {
        for (sums, x) in sums.iter_mut().zip([a, b, c, d]) {
            for (sum, y) in sums.iter_mut().zip(column) {
                *sum += x * y;
            }
        }
    }
    sums
}

fn one(row: &[f32], panel: &[f32]) -> [f32; LANES] {
    let mut sums = [0.0; LANES];
    for (column, x) in panel.as_chunks::<LANES>().0.iter().zip(row) {
        for (sum, y) in sums.iter_mut().zip(column) {
            *sum += x * y;
        }
    }
    sums
}

/// A matrix and what is added to each product.
#[derive(Debug)]
pub(super) struct Linear {
    packed: Packed,
    bias: Vec<f32>,
}

impl Linear {
    /// Returns the layer of `weights`, a row of inputs for each number of `bias`.
    pub(super) fn new(weights: &[f32], bias: Vec<f32>) -> Self {
        let inputs = weights.len() / bias.len().max(1);
        let mut packed = Packed::default();
        packed.fill(bias.len(), inputs, |output, input| {
            weights[output * inputs + input]
        });
        Self { packed, bias }
    }

    /// Puts each of `rows` through the layer.
    pub(super) fn apply(&self, rows: &[f32], to: &mut Vec<f32>) {
        self.packed.apply(rows, to);
        add(to, &self.bias);
    }
}

/// Adds `row` to each row of `rows`.
pub(super) fn add(rows: &mut [f32], row: &[f32]) {
    for to in rows.chunks_exact_mut(row.len().max(1)) {
        to.iter_mut().zip(row).for_each(|(to, x)| *to += x);
    }
}

/// A row's numbers, shifted and scaled to mean 0 and variance 1, then to `gain` and `shift`.
#[derive(Debug)]
pub(super) struct Norm {
    pub(super) gain: Vec<f32>,
    pub(super) shift: Vec<f32>,
    /// Added to the variance.
    pub(super) epsilon: f32,
}

impl Norm {
    pub(super) fn apply(&self, rows: &mut [f32]) {
        #[expect(clippy::cast_precision_loss, reason = "a row is shorter than 2^24")]
        let length = self.gain.len() as f32;
        for row in rows.chunks_exact_mut(self.gain.len().max(1)) {
            let mean = total(row, |x| x) / length;
            let variance = total(row, |x| (x - mean) * (x - mean)) / length;
            let scale = 1.0 / (variance + self.epsilon).sqrt();
            for ((x, gain), shift) in row.iter_mut().zip(&self.gain).zip(&self.shift) {
                *x = (*x - mean) * scale * gain + shift;
            }
        }
    }
}

/// Makes a row's numbers, times `scale`, shares of 1: the larger the number, the larger its share.
pub(super) fn shares(row: &mut [f32], scale: f32) {
    let most = row.iter().fold(
        f32::NEG_INFINITY,
        |most, x| if *x > most { *x } else { most },
    );
    row.iter_mut().for_each(|x| *x = exp((*x - most) * scale));
    let total = total(row, |x| x);
    row.iter_mut().for_each(|x| *x /= total);
}

/// The activation of the BERT family: x times the normal distribution at x.
pub(super) fn gelu(numbers: &mut [f32]) {
    numbers
        .iter_mut()
        .for_each(|x| *x *= 0.5 * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2)));
}

/// Abramowitz and Stegun 7.1.26: at most 1.5e-7 off.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let polynomial = ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t
        + 0.254_829_6)
        * t;
    (1.0 - polynomial * exp(-x * x)).copysign(x)
}

/// e to the power of x, for x from -87 (less is taken for it) to 0 and a little above, as Cephes' expf computes it: f32::exp is
/// a call for each number, this is none and runs in lanes.
fn exp(x: f32) -> f32 {
    /// 1.5 × 2²³: what is added to it is rounded to whole numbers, which stand in its lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let x = if x > -87.0 { x } else { -87.0 };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let x = x - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let polynomial =
        ((((1.987_569_1e-4 * x + 1.398_2e-3) * x + 8.333_452e-3) * x + 4.166_579_6e-2) * x
            + 0.166_666_65)
            * x
            + 0.5;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    (polynomial * x * x + x + 1.0) * power
}

/// Adds up what `of` makes of the numbers, in lanes.
fn total(numbers: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let (lanes, rest) = numbers.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for eight in lanes {
        sums.iter_mut()
            .zip(eight)
            .for_each(|(sum, x)| *sum += of(*x));
    }
    sums.iter().sum::<f32>() + rest.iter().map(|x| of(*x)).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look like chance, from -1 to 1.
    fn some(count: usize) -> Vec<f32> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from(u16::try_from(state >> 16).expect("16 bits")) / 32768.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn products_are_those_of_the_definition_for_every_size() {
        for (rows, inputs, outputs) in [
            (1, 1, 1),
            (3, 5, 7),
            (4, 8, 8),
            (9, 3, 17),
            (5, 40, 24),
            (0, 4, 4),
        ] {
            let (a, w, bias) = (some(rows * inputs), some(outputs * inputs), some(outputs));
            let mut found = vec![9.0];
            Linear::new(&w, bias.clone()).apply(&a, &mut found);
            assert_eq!(found.len(), rows * outputs);
            for (at, found) in found.iter().enumerate() {
                let (row, output) = (at / outputs, at % outputs);
                let expected: f32 = (0..inputs)
                    .map(|i| a[row * inputs + i] * w[output * inputs + i])
                    .sum::<f32>()
                    + bias[output];
                assert!(
                    (found - expected).abs() < 1e-5,
                    "{rows} {inputs} {outputs}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn exp_and_gelu_are_those_of_the_books() {
        for step in -8700..100_i16 {
            let x = f32::from(step) / 100.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-6, "{x}");
        }
        assert!(exp(-1000.0) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
        // scipy.stats.norm.cdf(x) * x
        let mut numbers = [-3.0, -1.0, -0.1, 0.0, 0.5, 2.0, 20.0, -20.0];
        gelu(&mut numbers);
        let expected = [
            -0.004_049_69,
            -0.158_655_25,
            -0.046_017_216,
            0.0,
            0.345_731_23,
            1.954_499_7,
            20.0,
            0.0,
        ];
        for (found, expected) in numbers.iter().zip(expected) {
            assert!((found - expected).abs() < 5e-7, "{found} {expected}");
        }
    }

    #[test]
    fn shares_add_up_to_one_and_norms_to_nothing() {
        let mut row = some(19);
        row.push(300.0);
        row.push(299.0);
        shares(&mut row, 1.0);
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!(
            (row[19] - 0.731_058_6).abs() < 1e-6 && row[0] < 1e-30,
            "{row:?}"
        );
        let mut rows = some(2 * 19);
        Norm {
            gain: vec![2.0; 19],
            shift: vec![0.5; 19],
            epsilon: 1e-12,
        }
        .apply(&mut rows);
        for row in rows.chunks_exact(19) {
            let mean = row.iter().sum::<f32>() / 19.0;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / 19.0;
            assert!(
                (mean - 0.5).abs() < 1e-5 && (variance - 4.0).abs() < 1e-4,
                "{mean} {variance}"
            );
        }
    }
}
