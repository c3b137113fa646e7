//! Small dense matrices, as far as the models need them.
//!
//! **Invariant:** nothing is subtracted, so that no digit is lost to cancellation, in any cell. The matrices solved
//! here are M-matrices, with a positive diagonal and nothing positive beside it; they are given by their cells beside
//! the diagonal and by their row sums, and elimination keeps both without ever reading the diagonal (Grassmann, Taksar,
//! Heyman 1985; Alfa, Xue, Ye 2002).

/// Weight beyond which the weights are scaled down.
const LARGE: f64 = 1e100;

/// A rectangle of numbers, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    columns: usize,
    cells: Vec<f64>,
}

impl Matrix {
    /// Creates the matrix whose cell in `row` and `column` is `cell(row, column)`.
    pub(super) fn from_fn(rows: usize, columns: usize, cell: impl Fn(usize, usize) -> f64) -> Matrix {
        let cells = (0..rows * columns).map(|at| cell(at / columns, at % columns)).collect();
        Matrix { columns, cells }
    }

    fn rows_count(&self) -> usize {
        self.cells.len() / self.columns
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.columns..][..self.columns]
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.cells.chunks_exact(self.columns)
    }

    /// Returns `self * other`.
    pub(super) fn times(&self, other: &Matrix) -> Matrix {
        let mut product = Matrix::from_fn(self.rows_count(), other.columns, |_, _| 0.0);
        for (left, sum) in self.rows().zip(product.cells.chunks_exact_mut(other.columns)) {
            add_product(sum, left, other);
        }
        product
    }

    /// Returns `vector * self`.
    pub(super) fn after(&self, vector: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.columns];
        add_product(&mut product, vector, self);
        product
    }

    /// Returns `self * vector`.
    pub(super) fn before(&self, vector: &[f64]) -> Vec<f64> {
        self.rows().map(|row| dot(row, vector)).collect()
    }

    /// Returns the sum of each row.
    pub(super) fn row_sums(&self) -> Vec<f64> {
        self.rows().map(|row| row.iter().sum()).collect()
    }

    /// Adds another matrix of the same shape.
    pub(super) fn add(&mut self, other: &Matrix) {
        for (cell, more) in self.cells.iter_mut().zip(&other.cells) {
            *cell += more;
        }
    }

    /// Multiplies each cell.
    pub(super) fn scale(&mut self, factor: f64) {
        self.cells.iter_mut().for_each(|cell| *cell *= factor);
    }

    /// Scales each row so that its sum is 1; a row of a matrix without negative numbers, and not all zero.
    pub(super) fn make_stochastic(&mut self) {
        for row in self.cells.chunks_exact_mut(self.columns) {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|cell| *cell /= sum);
        }
    }

    /// Returns the inverse of the M-matrix whose cells beside the diagonal are `-self`, and whose rows add up to
    /// `sums`, none negative. The diagonal is not read.
    pub(super) fn inverse_from(mut self, mut sums: Vec<f64>) -> Matrix {
        let size = self.columns;
        let mut inverse = Matrix::from_fn(size, size, |row, column| if row == column { 1.0 } else { 0.0 });
        let mut diagonal = Vec::with_capacity(size);
        for pivot in 0..size {
            let (above, below) = self.cells.split_at_mut((pivot + 1) * size);
            let row = &above[pivot * size + pivot + 1..];
            diagonal.push(sums[pivot] + row.iter().sum::<f64>());
            let (done, rest) = inverse.cells.split_at_mut((pivot + 1) * size);
            for (at, other) in below.chunks_exact_mut(size).enumerate() {
                let factor = other[pivot] / diagonal[pivot];
                if factor != 0.0 {
                    add_scaled(&mut other[pivot + 1..], factor, row);
                    add_scaled(&mut rest[at * size..][..=pivot], factor, &done[pivot * size..]);
                    sums[pivot + 1 + at] += factor * sums[pivot];
                }
            }
        }
        for pivot in (0..size).rev() {
            let (row, done) = inverse.cells[pivot * size..].split_at_mut(size);
            for (factor, solved) in self.row(pivot)[pivot + 1..].iter().zip(done.chunks_exact(size)) {
                if *factor != 0.0 {
                    add_scaled(row, *factor, solved);
                }
            }
            row.iter_mut().for_each(|cell| *cell /= diagonal[pivot]);
        }
        inverse
    }

    /// Returns the probabilities of the states of the irreducible Markov chain whose rates are beside the diagonal,
    /// which is not read.
    pub(super) fn stationary(mut self) -> Vec<f64> {
        let size = self.columns;
        for last in (1..size).rev() {
            let (above, rest) = self.cells.split_at_mut(last * size);
            let row = &rest[..last];
            let out: f64 = row.iter().sum();
            for other in above.chunks_exact_mut(size) {
                other[last] /= out;
                let factor = other[last];
                add_scaled(&mut other[..last], factor, row);
            }
        }
        let mut vector = vec![1.0];
        for state in 1..size {
            vector.push((0..state).map(|from| vector[from] * self.row(from)[state]).sum());
            // The first state may be rarer by hundreds of digits than those that come.
            if LARGE < vector[state] {
                vector.iter_mut().for_each(|weight| *weight /= LARGE);
            }
        }
        let sum: f64 = vector.iter().sum();
        vector.iter_mut().for_each(|weight| *weight /= sum);
        vector
    }
}

/// Returns the scalar product.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Computes `sum += vector * matrix`.
fn add_product(sum: &mut [f64], vector: &[f64], matrix: &Matrix) {
    for (factor, row) in vector.iter().zip(matrix.rows()) {
        // Many are zero: transitions change the phase by one at most.
        if *factor != 0.0 {
            add_scaled(sum, *factor, row);
        }
    }
}

/// Computes `sum += factor * row`.
fn add_scaled(sum: &mut [f64], factor: f64, row: &[f64]) {
    for (cell, value) in sum.iter_mut().zip(row) {
        *cell += factor * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A generator of a Markov chain with these rates between its states.
    fn generator(size: usize, rates: &[f64]) -> Matrix {
        let rate = |from: usize, to: usize| if from == to { 0.0 } else { rates[from * size + to] };
        Matrix::from_fn(size, size, |from, to| {
            if from == to { -(0..size).map(|other| rate(from, other)).sum::<f64>() } else { rate(from, to) }
        })
    }

    proptest! {
        #[test]
        fn an_inverse_times_its_matrix_is_one(rates in prop::collection::vec(0.0..10.0_f64, 36), exit in 1e-3..10.0_f64) {
            let generator = generator(6, &rates);
            let matrix = Matrix::from_fn(6, 6, |i, j| f64::from(u8::from(i == j)) * exit - generator.row(i)[j]);
            let product = generator.inverse_from(vec![exit; 6]).times(&matrix);
            for (i, row) in product.rows().enumerate() {
                for (j, cell) in row.iter().enumerate() {
                    prop_assert!((cell - f64::from(u8::from(i == j))).abs() < 1e-9, "{product:?}");
                }
            }
        }

        #[test]
        fn a_stationary_vector_is_in_balance(rates in prop::collection::vec(1e-3..10.0_f64, 36)) {
            let generator = generator(6, &rates);
            let vector = generator.clone().stationary();
            prop_assert!((vector.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            prop_assert!(generator.after(&vector).iter().all(|flow| flow.abs() < 1e-9));
        }
    }

    #[test]
    fn states_that_are_rarer_by_hundreds_of_digits_do_no_harm() {
        // Each state is entered 10^10 times as often as the one before.
        let chain = Matrix::from_fn(100, 100, |from, to| match to as i32 - from as i32 {
            1 => 1e10,
            -1 => 1.0,
            _ => 0.0,
        });
        let vector = chain.stationary();
        assert!((vector[99] - 1.0).abs() < 1e-9);
        assert!((vector[98] * 1e10 - 1.0).abs() < 1e-9);
        assert!(vector[0] <= 1e-300);
    }

    #[test]
    fn products_with_vectors_agree_with_those_of_matrices() {
        let matrix = Matrix::from_fn(2, 3, |i, j| (3 * i + j) as f64);
        assert_eq!(matrix.after(&[1.0, 10.0]), [30.0, 41.0, 52.0]);
        assert_eq!(matrix.before(&[1.0, 0.0, 2.0]), [4.0, 13.0]);
        let column = Matrix::from_fn(3, 1, |i, _| [1.0, 0.0, 2.0][i]);
        assert_eq!(matrix.times(&column), Matrix::from_fn(2, 1, |i, _| [4.0, 13.0][i]));
    }
}
