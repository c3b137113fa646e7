//! Sums of squares and products for `stddev`, `variance`, `corr` and the `regr_` functions.
//!
//! **Invariant:** floats are summed as in PostgreSQL (Youngs and Cramer), term for term. Integers and
//! numerics are summed exactly.

use crate::datum::Datum;
use crate::numeric::Numeric;
use statement::error::{SqlError, SqlResult, SqlState};

/// Variant of a variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variance {
    /// True for a sample, false for the whole population.
    pub(super) sample: bool,
    /// True for the square root, the standard deviation.
    pub(super) root: bool,
}

/// Statistic of two variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegressionStatistic {
    Count,
    Sxx,
    Syy,
    Sxy,
    AverageX,
    AverageY,
    CovariancePopulation,
    CovarianceSample,
    Correlation,
    R2,
    Slope,
    Intercept,
}

fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

/// Count, sum, and sum of squared distances from the average.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    n: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    pub(super) fn add(&mut self, value: f64) -> SqlResult<()> {
        let before = *self;
        self.n += 1.0;
        self.sum += value;
        if before.n > 0.0 {
            let distance = value * self.n - self.sum;
            self.squares += distance * distance / (self.n * before.n);
            if self.sum.is_infinite() || self.squares.is_infinite() {
                if !before.sum.is_infinite() && !value.is_infinite() {
                    return Err(overflow());
                }
                self.squares = f64::NAN;
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    pub(super) fn finish(&self, spread: Variance) -> Datum {
        let freedom = if spread.sample { self.n - 1.0 } else { self.n };
        if freedom <= 0.0 {
            return Datum::Null;
        }
        let variance = self.squares / freedom;
        Datum::Float8(if spread.root { variance.sqrt() } else { variance })
    }
}

/// Count, sum, and sum of squares.
#[derive(Clone, Debug)]
pub(super) struct Squares {
    n: i64,
    sum: Numeric,
    squares: Numeric,
}

impl Default for Squares {
    fn default() -> Squares {
        Squares { n: 0, sum: Numeric::ZERO, squares: Numeric::ZERO }
    }
}

impl Squares {
    pub(super) fn add(&mut self, value: &Numeric) -> SqlResult<()> {
        self.n += 1;
        self.sum = self.sum.add(value)?;
        self.squares = self.squares.add(&value.mul(value)?)?;
        Ok(())
    }

    pub(super) fn finish(&self, spread: Variance) -> SqlResult<Datum> {
        if self.n <= i64::from(spread.sample) {
            return Ok(Datum::Null);
        }
        if !self.sum.is_finite() || !self.squares.is_finite() {
            return Ok(Datum::Numeric(Numeric::NAN));
        }
        let n = Numeric::from(self.n);
        let above = n.mul(&self.squares)?.sub(&self.sum.mul(&self.sum)?)?;
        if above <= Numeric::ZERO {
            return Ok(Datum::Numeric(Numeric::ZERO));
        }
        let below = n.mul(&Numeric::from(if spread.sample { self.n - 1 } else { self.n }))?;
        let variance = above.div(&below)?;
        Ok(Datum::Numeric(if spread.root { variance.sqrt_at(variance.scale())? } else { variance }))
    }
}

/// Sums of two variables, x and y.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PairSums {
    n: f64,
    sx: f64,
    sxx: f64,
    sy: f64,
    syy: f64,
    sxy: f64,
}

impl PairSums {
    pub(super) fn add(&mut self, y: f64, x: f64) -> SqlResult<()> {
        let before = *self;
        self.n += 1.0;
        self.sx += x;
        self.sy += y;
        if before.n > 0.0 {
            let (dx, dy) = (x * self.n - self.sx, y * self.n - self.sy);
            let scale = 1.0 / (self.n * before.n);
            self.sxx += dx * dx * scale;
            self.syy += dy * dy * scale;
            self.sxy += dx * dy * scale;
            if [self.sx, self.sxx, self.sy, self.syy, self.sxy].iter().any(|sum| sum.is_infinite()) {
                let (x_was, y_was) =
                    (before.sx.is_infinite() || x.is_infinite(), before.sy.is_infinite() || y.is_infinite());
                if ((self.sx.is_infinite() || self.sxx.is_infinite()) && !x_was)
                    || ((self.sy.is_infinite() || self.syy.is_infinite()) && !y_was)
                    || (self.sxy.is_infinite() && !x_was && !y_was)
                {
                    return Err(overflow());
                }
                for sum in [&mut self.sxx, &mut self.syy, &mut self.sxy] {
                    if sum.is_infinite() {
                        *sum = f64::NAN;
                    }
                }
            }
        } else {
            if !x.is_finite() {
                (self.sxx, self.sxy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.syy, self.sxy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(())
    }

    pub(super) fn finish(&self, relation: RegressionStatistic) -> Datum {
        let PairSums { n, sx, sxx, sy, syy, sxy } = *self;
        if relation == RegressionStatistic::Count {
            return Datum::Int8(n as i64);
        }
        if n < 1.0 {
            return Datum::Null;
        }
        let some = |there: bool, value: f64| if there { Datum::Float8(value) } else { Datum::Null };
        match relation {
            RegressionStatistic::Count => Datum::Int8(n as i64),
            RegressionStatistic::Sxx => Datum::Float8(sxx),
            RegressionStatistic::Syy => Datum::Float8(syy),
            RegressionStatistic::Sxy => Datum::Float8(sxy),
            RegressionStatistic::AverageX => Datum::Float8(sx / n),
            RegressionStatistic::AverageY => Datum::Float8(sy / n),
            RegressionStatistic::CovariancePopulation => Datum::Float8(sxy / n),
            RegressionStatistic::CovarianceSample => some(n > 1.0, sxy / (n - 1.0)),
            RegressionStatistic::Correlation => some(sxx != 0.0 && syy != 0.0, sxy / (sxx * syy).sqrt()),
            RegressionStatistic::R2 if sxx == 0.0 => Datum::Null,
            RegressionStatistic::R2 if syy == 0.0 => Datum::Float8(1.0),
            RegressionStatistic::R2 => Datum::Float8((sxy * sxy) / (sxx * syy)),
            RegressionStatistic::Slope => some(sxx != 0.0, sxy / sxx),
            RegressionStatistic::Intercept => some(sxx != 0.0, (sy - sx * sxy / sxx) / n),
        }
    }
}
