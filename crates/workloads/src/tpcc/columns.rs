//! Positions of columns. Each table's are in a module of its own.

macro_rules! columns {
    ($($(#[$doc:meta])* $table:ident { $($column:ident),+ $(,)? })+) => {
        $($(#[$doc])*
        #[expect(missing_docs, reason = "most names are the specification's")]
        pub mod $table {
            columns!(@count 0usize; $($column),+);
        })+
    };
    (@count $at:expr; $column:ident $(, $rest:ident)*) => {
        pub const $column: usize = $at;
        columns!(@count $at + 1; $($rest),*);
    };
    (@count $at:expr;) => {};
}

columns! {
    /// `tpcc.warehouse`.
    warehouse { W_ID, W_NAME, W_STREET_1, W_STREET_2, W_CITY, W_STATE, W_ZIP, W_TAX, W_YTD }
    /// `tpcc.district`.
    district {
        D_ID, D_W_ID, D_NAME, D_STREET_1, D_STREET_2, D_CITY, D_STATE, D_ZIP, D_TAX, D_YTD, D_NEXT_O_ID,
    }
    /// `tpcc.customer`.
    customer {
        C_ID, C_D_ID, C_W_ID, C_FIRST, C_MIDDLE, C_LAST, C_STREET_1, C_STREET_2, C_CITY, C_STATE, C_ZIP, C_PHONE,
        C_SINCE, C_CREDIT, C_CREDIT_LIM, C_DISCOUNT, C_BALANCE, C_YTD_PAYMENT, C_PAYMENT_CNT, C_DELIVERY_CNT, C_DATA,
    }
    /// `tpcc.history`.
    history { H_C_ID, H_C_D_ID, H_C_W_ID, H_D_ID, H_W_ID, H_DATE, H_AMOUNT, H_DATA }
    /// `tpcc.new_order`.
    new_order { NO_O_ID, NO_D_ID, NO_W_ID }
    /// `tpcc.orders`.
    orders { O_ID, O_D_ID, O_W_ID, O_C_ID, O_ENTRY_D, O_CARRIER_ID, O_OL_CNT, O_ALL_LOCAL }
    /// `tpcc.order_line`.
    order_line {
        OL_O_ID, OL_D_ID, OL_W_ID, OL_NUMBER, OL_I_ID, OL_SUPPLY_W_ID, OL_DELIVERY_D, OL_QUANTITY, OL_AMOUNT,
        OL_DIST_INFO,
    }
    /// `tpcc.item`.
    item { I_ID, I_IM_ID, I_NAME, I_PRICE, I_DATA }
    /// `tpcc.stock`. The ten columns of district information are consecutive.
    stock {
        S_I_ID, S_W_ID, S_QUANTITY, S_DIST_01, S_DIST_02, S_DIST_03, S_DIST_04, S_DIST_05, S_DIST_06, S_DIST_07,
        S_DIST_08, S_DIST_09, S_DIST_10, S_YTD, S_ORDER_CNT, S_REMOTE_CNT, S_DATA,
    }
    /// `tpcc.purged_district`, an addition to the specification.
    purged_district { PD_W_ID, PD_D_ID, PD_NEXT_O_ID, PD_ORDERS, PD_PAID }
    /// `tpcc.purged_customer`, an addition to the specification.
    purged_customer { PC_W_ID, PC_D_ID, PC_C_ID, PC_DELIVERED, PC_PAID, PC_PAYMENTS }
    /// `tpcc.purged_supply`, an addition to the specification.
    purged_supply {
        PS_W_ID, PS_QUANTITY, PS_LINES, PS_REMOTE_LINES, PS_QUANTITY_MARK, PS_LINES_MARK, PS_REMOTE_LINES_MARK,
    }
}
