//! The amount of data.

/// Numbers of rows, and the constants of the skewed random numbers that belong to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of warehouses, numbered from 1.
    pub warehouses: i32,
    /// Number of districts of a warehouse.
    pub districts: i32,
    /// Number of customers, and of orders at load, of a district.
    pub customers: i32,
    /// Number of items, and of rows of stock in each warehouse.
    pub items: i32,
    /// `A` of NURand for customers (clause 2.1.6).
    pub customer_skew: i32,
    /// `A` of NURand for items.
    pub item_skew: i32,
}

impl Scale {
    /// Returns the specification's cardinalities (clause 1.2.1).
    pub const fn spec(warehouses: i32) -> Scale {
        Scale { warehouses, districts: 10, customers: 3_000, items: 100_000, customer_skew: 1_023, item_skew: 8_191 }
    }

    /// Returns a population for tests: the same shape, 50 times smaller.
    pub const fn small(warehouses: i32) -> Scale {
        Scale { warehouses, districts: 10, customers: 60, items: 2_000, customer_skew: 15, item_skew: 127 }
    }

    /// Returns the first order of a district that is new at load: the last 900 of 3,000 are.
    pub const fn first_new_order(&self) -> i32 {
        first_new_order(self.customers)
    }

    /// Returns the number of different last names: the first 1,000 customers of a district have one each.
    pub const fn last_names(&self) -> i32 {
        if self.customers < 1_000 { self.customers } else { 1_000 }
    }

    /// Returns the number of rows at load, order lines at their mean of ten per order.
    pub const fn rows_expected(&self) -> u64 {
        let district = 1 + self.customers as u64 * (1 + 1 + 1 + 10) + (self.customers * 3 / 10) as u64;
        self.items as u64 + self.warehouses as u64 * (1 + self.items as u64 + self.districts as u64 * district)
    }
}

/// Returns the first order that is new at load, of as many orders as customers in a district.
pub(crate) const fn first_new_order(customers: i32) -> i32 {
    customers - customers * 3 / 10 + 1
}
