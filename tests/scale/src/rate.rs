//! Write units: a table that takes more as its load grows, and partitions that never take more than one.

use crate::aws;

/// Something that takes so many units a second. What comes too fast is told to come again later.
#[derive(Debug, Clone)]
pub struct Gate {
    units_a_second: f64,
    /// When what was let through so far will have been taken, in milliseconds.
    busy_until_ms: f64,
}

/// How much may be taken ahead: DynamoDB lets a burst through on what was left unused, of which a second's worth counts
/// here.
const BURST_MS: f64 = 1_000.0;

impl Gate {
    /// A gate of so many units a second.
    #[must_use]
    pub const fn new(units_a_second: f64) -> Self {
        Self { units_a_second, busy_until_ms: 0.0 }
    }

    /// How long these units have to wait at `now`, in milliseconds; 0: they are let through at once.
    #[must_use]
    pub fn wait_ms(&self, now_ms: u64) -> f64 {
        (self.busy_until_ms - now_ms as f64 - BURST_MS).max(0.0)
    }

    /// Takes these units.
    pub fn take(&mut self, units: f64, now_ms: u64) {
        self.busy_until_ms = self.busy_until_ms.max(now_ms as f64) + units * 1_000.0 / self.units_a_second;
    }
}

/// A table on demand: its limit is twice the highest rate that it has seen, reached half an hour later.
#[derive(Debug, Clone)]
pub struct Table {
    gate: Gate,
    peak_of_window: f64,
    window_ends_ms: u64,
    this_second: (u64, f64),
    /// The highest rate of any second, in units.
    pub peak: f64,
    /// All units.
    pub units: f64,
}

impl Table {
    /// A table that takes so many units a second from the start.
    #[must_use]
    pub const fn new(warm: f64) -> Self {
        Self {
            gate: Gate::new(warm),
            peak_of_window: 0.0,
            window_ends_ms: aws::GROWTH_MINUTES * 60_000,
            this_second: (0, 0.0),
            peak: 0.0,
            units: 0.0,
        }
    }

    /// As [`Gate::wait_ms`].
    #[must_use]
    pub fn wait_ms(&self, now_ms: u64) -> f64 {
        self.gate.wait_ms(now_ms)
    }

    /// As [`Gate::take`].
    pub fn take(&mut self, units: f64, now_ms: u64) {
        if now_ms >= self.window_ends_ms {
            self.gate.units_a_second = self.gate.units_a_second.max(2.0 * self.peak_of_window);
            self.peak_of_window = 0.0;
            self.window_ends_ms = now_ms + aws::GROWTH_MINUTES * 60_000;
        }
        self.gate.take(units, now_ms);
        // What waits is taken when its turn comes.
        let second = (self.gate.busy_until_ms / 1_000.0) as u64;
        if self.this_second.0 != second {
            self.this_second = (second, 0.0);
        }
        self.this_second.1 += units;
        self.peak_of_window = self.peak_of_window.max(self.this_second.1);
        self.peak = self.peak.max(self.this_second.1);
        self.units += units;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_lets_its_rate_through() {
        let mut gate = Gate::new(100.0);
        for _ in 0..100 {
            assert!(gate.wait_ms(0) <= 0.0);
            gate.take(1.0, 0);
        }
        gate.take(50.0, 0);
        assert!((gate.wait_ms(0) - 500.0).abs() < 1e-6);
        assert!(gate.wait_ms(500) <= 1e-6);
    }

    #[test]
    fn a_table_takes_twice_its_peak_half_an_hour_later() {
        let mut table = Table::new(100.0);
        table.take(100.0, 0);
        table.take(100.0, 1_000);
        assert!(table.wait_ms(1_000) <= 0.0);
        table.take(1.0, aws::GROWTH_MINUTES * 60_000);
        assert!((table.gate.units_a_second - 200.0).abs() < 1e-6);
    }
}
